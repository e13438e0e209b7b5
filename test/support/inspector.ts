/** Asks V8's inspector about a Worker that runs in workerd. */
import { once } from 'node:events'

const ANSWER_MS = 60_000
const POKE_EVERY_MS = 500

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

function call<T>(socket: WebSocket, method: string, params: Readonly<Record<string, unknown>> = {}): Promise<T> {
  const id = Math.floor(Math.random() * 2 ** 31)
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`${method}: no answer in ${ANSWER_MS} ms`)), ANSWER_MS)
    // Several messages may come at once: none must be missed between two that are waited for.
    socket.addEventListener('message', function read({ data }: MessageEvent) {
      const message = JSON.parse(String(data))
      if (message.id !== id) return
      clearTimeout(late)
      socket.removeEventListener('message', read)
      if (message.error) reject(new Error(`${method}: ${message.error.message}`))
      else resolve(message.result)
    })
    socket.send(JSON.stringify({ id, method, params }))
  })
}

/**
 * MiB of a Worker's heap that are in use, after a collection.
 * @param url a request that is sent meanwhile: without any, workerd was seen to leave the inspector without an answer
 * for more than a minute
 */
export async function measureHeapMiB(port: number, url: URL): Promise<number> {
  const poking = setInterval(() => fetch(url).then((response) => response.text(), ignoreFailure), POKE_EVERY_MS)
  try {
    return await withInspector(port, async (call) => {
      await call('HeapProfiler.collectGarbage')
      const { usedSize } = await call<{ usedSize: number }>('Runtime.getHeapUsage')
      return usedSize / 2 ** 20
    })
  } finally {
    clearInterval(poking)
  }
}

function ignoreFailure(): void {}
