/** HTTP servers on 127.0.0.1. */
import { once } from 'node:events'
import { createServer, type RequestListener, type Server, type ServerOptions } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface LocalServer {
  readonly url: string
  readonly server: Server
  /** Cuts open connections and resolves when the port is free. May be repeated. */
  stop(): Promise<void>
}

/**
 * @param port default: a free one
 * @throws Error if the port is taken
 */
export async function startLocalServer(
  listener: RequestListener,
  port = 0,
  options: ServerOptions = {},
): Promise<LocalServer> {
  // The default, five seconds, would close a connection just as a client takes it up again.
  const server = createServer({ keepAliveTimeout: 0, ...options }, listener)
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    server,
    async stop() {
      if (!server.listening) return
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}
