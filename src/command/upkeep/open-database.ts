import { namedDatabase } from '../redis/connection.ts'
import type { Settings } from '../settings/settings.ts'
import type { Database } from './database.ts'
import { toCommandError } from './run-sweep.ts'

/**
 * Opens the database that `--redis` names, else the Worker's, else the one of REDIS_URL, for upkeep.
 * @throws {CommandError} if none is named, or it cannot be reached
 */
export async function openDatabase(
  settings: Settings,
  env: Readonly<Record<string, string | undefined>>,
  redis?: string,
): Promise<{ readonly database: Database; readonly name: string }> {
  const { url, token } = namedDatabase(settings, env, redis)
  const name = url.host + url.pathname.replace(/\/+$/, '')
  try {
    if (token === undefined) {
      const { openRedisDatabase } = await import('./redis-database.ts')
      return { database: await openRedisDatabase(url.href), name }
    }
    const { UpstashDatabase } = await import('./upstash-database.ts')
    const database = new UpstashDatabase({ url: url.href.replace(/\/+$/, ''), token })
    // So that a wrong URL or token is told at once.
    await database.ping()
    return { database, name }
  } catch (error) {
    throw toCommandError(error)
  }
}
