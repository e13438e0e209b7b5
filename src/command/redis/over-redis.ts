import { nodeRedisClient } from '../../store/redis/clients/node-redis.ts'
import { CommandError } from '../command-error.ts'
import { CALL_TIMEOUT_MS, type Connection } from './connection.ts'
import { serverError } from './server-error.ts'

/** Over a connection of its own, by Redis's protocol. */
export async function connectOverRedis(url: URL): Promise<Connection> {
  const { createClient, ErrorReply } = await import('@redis/client')
  const name = `${url.hostname}:${url.port || 6379}`
  const secrets = [url.password, decodeURIComponent(url.password)].filter((text) => text !== '')
  const client = createClient({
    url: url.href,
    // A lost connection is reported; callers that can go on connect again.
    socket: { connectTimeout: CALL_TIMEOUT_MS, reconnectStrategy: false },
    disableOfflineQueue: true,
    commandOptions: { timeout: CALL_TIMEOUT_MS },
  })
  client.on('error', () => {})
  const toCommandError = (error: unknown): CommandError => {
    if (error instanceof ErrorReply) return serverError(error.message, secrets)
    const { code, name: kind } = error as NodeJS.ErrnoException
    return new CommandError(`Redis at ${name} cannot be reached (${code ?? kind})`, {
      exit: 'redis',
      hint: 'Is it running, and is the URL right?',
    })
  }
  await client.connect().catch((error: unknown) => {
    client.destroy()
    throw toCommandError(error)
  })
  return {
    client: nodeRedisClient(client),
    kind: 'redis',
    name,
    secrets,
    async close() {
      client.destroy()
    },
  }
}
