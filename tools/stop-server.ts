import { once } from 'node:events'
import type { Server } from 'node:http'

/** Cuts a server's open connections and resolves when its port is free. May be repeated. */
export async function stopServer(server: Server): Promise<void> {
  if (!server.listening) return
  const closed = once(server, 'close')
  server.close()
  server.closeAllConnections()
  await closed
}
