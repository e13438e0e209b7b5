/** Asks V8's inspector about a Worker that runs in workerd. */
import { once } from 'node:events'

/** Calls one method at a time. */
export type CallInspector = <T>(method: string, params?: Readonly<Record<string, unknown>>) => Promise<T>

/** @param port of workerd's inspector @throws Error if a method fails */
export async function withInspector<T>(port: number, work: (call: CallInspector) => Promise<T>): Promise<T> {
  const response = await fetch(`http://127.0.0.1:${port}/json`)
  const [worker] = (await response.json()) as { webSocketDebuggerUrl: string }[]
  if (!worker) throw new Error('workerd offers nothing to inspect')
  const socket = new WebSocket(worker.webSocketDebuggerUrl)
  await once(socket, 'open')
  try {
    return await work((method, params) => call(socket, method, params))
  } finally {
    socket.close()
  }
}

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

/** MiB of a Worker's heap that are in use, after a collection. */
export function measureHeapMiB(port: number): Promise<number> {
  return withInspector(port, async (call) => {
    await call('HeapProfiler.collectGarbage')
    const { usedSize } = await call<{ usedSize: number }>('Runtime.getHeapUsage')
    return usedSize / 2 ** 20
  })
}
