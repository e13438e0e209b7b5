import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { WebSocketServer } from 'ws'
import { stopServer } from './stop-server.ts'

const HOST = '127.0.0.1'

export interface EchoUpstreamOptions {
  /** Default: a free one. */
  port?: number
}

export interface EchoUpstream {
  readonly url: string
  /** Cuts open connections and resolves when the port is free. May be repeated. */
  stop(): Promise<void>
}

/**
 * Starts an API on 127.0.0.1 that answers each request with the request itself, as JSON of `method`, `url` (path and
 * query, as they came), `headers` and `body`, and that sends each WebSocket message back.
 * @throws Error if the port is taken.
 */
export async function startEchoUpstream({ port = 0 }: EchoUpstreamOptions = {}): Promise<EchoUpstream> {
  const server = createServer(async (request, response) => {
    const { method, url, headers } = request
    try {
      const body = await text(request)
      response.setHeader('content-type', 'application/json')
      response.end(`${JSON.stringify({ method, url, headers, body }, null, 2)}\n`)
    } catch {
      // The client went away while it was sending.
      response.destroy()
    }
  })
  // The default, five seconds, would close a connection just as a gateway takes it up again.
  server.keepAliveTimeout = 0

  const webSockets = new WebSocketServer({ server })
  webSockets.on('connection', (socket) => {
    socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }))
  })
  // It repeats the errors of the server, which are thrown below.
  webSockets.on('error', () => {})

  server.listen(port, HOST)
  await once(server, 'listening')
  return {
    url: `http://${HOST}:${(server.address() as AddressInfo).port}`,
    async stop() {
      const stopped = stopServer(server)
      // Upgraded connections are no longer the server's.
      for (const socket of webSockets.clients) socket.terminate()
      await stopped
    },
  }
}
