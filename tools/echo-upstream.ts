/** An API to stand behind a gateway: it repeats what it gets. */
import { text } from 'node:stream/consumers'
import { WebSocketServer } from 'ws'
import { type LocalServer, startLocalServer } from './local-server.ts'

/**
 * Starts an API on 127.0.0.1 that answers each request with the request itself, as JSON of `method`, `url` (path and
 * query, as they came), `headers` and `body`, and that sends each WebSocket message back.
 * @throws Error if the port is taken
 */
export async function startEchoUpstream({ port }: { port?: number } = {}): Promise<LocalServer> {
  const { url, server, stop } = await startLocalServer(async (request, response) => {
    const { method, url, headers } = request
    try {
      const body = await text(request)
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
