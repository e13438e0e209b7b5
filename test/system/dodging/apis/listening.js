import { once } from 'node:events'

/** Waits until a server of node:http listens on a free port of 127.0.0.1. */
export async function listening(server) {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}
