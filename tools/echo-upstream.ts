/** An API to stand behind a gateway: it repeats what it gets, or answers as it is asked to. */
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocketServer } from 'ws'
import { type LocalServer, startLocalServer } from './local-server.ts'

/** What it does, in a line. */
export const ECHO = 'repeats each request, or answers as asked: /status/401, /delay/2, /bytes/1m'

const MAX_DELAY_S = 300
const MAX_BYTES = 100 * 2 ** 20
const UNIT_BYTES: Readonly<Record<string, number>> = { '': 1, k: 2 ** 10, m: 2 ** 20 }

/**
 * Starts an API on 127.0.0.1 that answers each request with the request itself, as JSON of `method`, `url` (path and
 * query, as they came), `headers` and `body`, and that sends each WebSocket message back. `/status/<200 to 599>` has that
 * status, `/delay/<seconds, at most 300>` comes so much later, and `/bytes/<count, with k or m>` is at most 100 MiB of "x".
 * @throws Error if the port is taken
 */
export async function startEchoUpstream({ port }: { port?: number } = {}): Promise<LocalServer> {
  const { url, server, stop } = await startLocalServer(async (request, response) => {
    const { method, url = '', headers } = request
    try {
      const body = await text(request)
      const [, verb = '', count = '', unit = ''] =
        /^\/(status|delay|bytes)\/(\d{1,9}(?:\.\d{1,3})?)([km]?)(?:\?|$)/.exec(url) ?? []
      if (verb === 'delay') await sleep(1_000 * Math.min(Number(count), MAX_DELAY_S))
      if (verb === 'status' && /^[2-5]\d\d$/.test(count)) response.statusCode = Number(count)
      if (verb === 'bytes')
        return response.end('x'.repeat(Math.min(Number(count) * (UNIT_BYTES[unit] ?? 1), MAX_BYTES)))
      response.setHeader('content-type', 'application/json')
      response.end(`${JSON.stringify({ method, url, headers, body }, null, 2)}\n`)
    } catch {
      // The client went away while it was sending.
      response.destroy()
    }
  }, port)
  const webSockets = new WebSocketServer({ server })
  webSockets.on('connection', (socket) => {
    socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }))
  })
  return {
    url,
    server,
    async stop() {
      const stopped = stop()
      // Upgraded connections are no longer the server's.
      for (const socket of webSockets.clients) socket.terminate()
      await stopped
    },
  }
}
