import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Upstream {
  readonly url: string
  stop(): Promise<void>
}

/** An API on 127.0.0.1 that answers as the test says. */
export async function startUpstream(listener: RequestListener): Promise<Upstream> {
  const server = createServer(listener)
  server.keepAliveTimeout = 0
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      server.close()
      server.closeAllConnections()
    },
  }
}
