import { Redis } from '@upstash/redis'
import { UPSTASH_OPTIONS, upstashClient } from '../../store/redis/clients/upstash.ts'
import { CommandError } from '../command-error.ts'
import { CALL_TIMEOUT_MS, type Connection } from './connection.ts'
import { serverError } from './server-error.ts'

/** Over Upstash's REST interface. */
export async function connectOverRest(url: URL, token: string): Promise<Connection> {
  const base = url.href.replace(/\/+$/, '')
  const redis = new Redis({
    url: base,
    token,
    ...UPSTASH_OPTIONS,
    signal: () => AbortSignal.timeout(CALL_TIMEOUT_MS),
  })

  // So that a wrong URL or token is reported at once, and plainly.
  await ping()
  return { client: upstashClient(redis), kind: 'rest', name: url.host, secrets: [token], async close() {} }

  async function ping(): Promise<void> {
    const { status, reply } = await fetch(base, {
      method: 'POST',
      headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(['PING']),
      signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
    })
      .then(async (response) => ({
        status: response.status,
        reply: (await response.json()) as { result?: unknown; error?: string },
      }))
      .catch((error: unknown) => {
        throw unreachable(url.host, error)
      })
    if (reply.error !== undefined) throw serverError(reply.error, [token])
    if (status !== 200 || !('result' in reply)) {
      throw new CommandError(`${url.host} answered ${status}, and no reply of Redis`, { exit: 'redis' })
    }
  }
}

function unreachable(host: string, error: unknown): CommandError {
  const { name, cause } = error as Error
  const code =
    name === 'TimeoutError' ? 'no answer in time' : ((cause as { code?: string } | undefined)?.code ?? 'no JSON')
  return new CommandError(`the database at ${host} cannot be reached (${code})`, {
    exit: 'redis',
    hint: 'Is it the REST URL of the database, and the database on?',
  })
}
