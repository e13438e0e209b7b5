/** V8's profiler, for a Worker that runs. */
import { once } from 'node:events'

interface Node {
  readonly id: number
  readonly callFrame: { readonly functionName: string }
}

interface Profile {
  readonly nodes: readonly Node[]
  readonly samples: readonly number[]
  /** Microseconds before each sample. */
  readonly timeDeltas: readonly number[]
}

const SAMPLE_EVERY_US = 200

/**
 * Samples a Worker with V8's profiler. Functions of the runtime (`fetch`, `Headers`, …) are named like those in
 * JavaScript; what has neither name is `(program)`.
 * @param port of workerd's inspector
 * @returns microseconds in each function itself, the most first
 */
export async function profile(port: number, durationMs: number): Promise<ReadonlyMap<string, number>> {
  const response = await fetch(`http://127.0.0.1:${port}/json`)
  const [worker] = (await response.json()) as { webSocketDebuggerUrl: string }[]
  if (!worker) throw new Error('workerd offers nothing to inspect')
  const socket = new WebSocket(worker.webSocketDebuggerUrl)
  await once(socket, 'open')
  try {
    await call(socket, 'Profiler.enable')
    await call(socket, 'Profiler.setSamplingInterval', { interval: SAMPLE_EVERY_US })
    await call(socket, 'Profiler.start')
    await new Promise((resolve) => setTimeout(resolve, durationMs))
    const { profile } = await call<{ profile: Profile }>(socket, 'Profiler.stop')
    return sumSelfTimes(profile)
  } finally {
    socket.close()
  }
}

/** Calls one method at a time. */
async function call<T>(socket: WebSocket, method: string, params: Readonly<Record<string, unknown>> = {}): Promise<T> {
  const id = Math.floor(Math.random() * 2 ** 31)
  socket.send(JSON.stringify({ id, method, params }))
  for (;;) {
    const [{ data }] = (await once(socket, 'message')) as [MessageEvent]
    const message = JSON.parse(String(data))
    if (message.error && message.id === id) throw new Error(`${method}: ${message.error.message}`)
    if (message.id === id) return message.result
  }
}

function sumSelfTimes({ nodes, samples, timeDeltas }: Profile): ReadonlyMap<string, number> {
  const names = new Map(nodes.map(({ id, callFrame }) => [id, callFrame.functionName || '(anonymous)']))
  const times = new Map<string, number>()
  for (const [index, id] of samples.entries()) {
    const name = names.get(id) ?? '(program)'
    times.set(name, (times.get(name) ?? 0) + (timeDeltas[index] ?? 0))
  }
  return new Map([...times].toSorted((a, b) => b[1] - a[1]))
}
