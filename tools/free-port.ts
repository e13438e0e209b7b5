/** Ports of 127.0.0.1 for processes to listen on. */
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Linux hands out ports from 32,768 by itself, and might give one to another before the process that is to have it listens. */
const [LOWEST, HIGHEST] = [10_000, 32_767]

/** Finds a port of 127.0.0.1 that no process listens on, for one to start. */
export async function findFreePort(): Promise<number> {
  for (;;) {
    const port = randomInt(LOWEST, HIGHEST + 1)
    const error = await assertFree(port).catch((error: NodeJS.ErrnoException) => error)
    if (!error) return port
    if (error.code !== 'EADDRINUSE') throw error
  }
}

/** @throws Error with the code of the system if someone listens on the port of 127.0.0.1 */
export async function assertFree(port: number): Promise<void> {
  const server = createServer().listen(port, '127.0.0.1')
  await once(server, 'listening')
  server.close()
  await once(server, 'close')
}
