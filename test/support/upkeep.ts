import { createClient, RESP_TYPES } from '@redis/client'
import { type Connection, connect, PATIENT_SILENCE_MS } from '../../src/command/redis/connection.ts'

/** A client that takes and answers bytes. */
export type BytesClient = Awaited<ReturnType<typeof connectBytes>>

export function connectBytes(port: number) {
  return createClient({
    RESP: 2,
    socket: { host: '127.0.0.1', port },
    commandOptions: { timeout: 0, typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } },
  })
    .on('error', () => {})
    .connect()
}

/** When each key is to expire, in ms since the Unix epoch; -1: never; -2: there is no such key. */
export async function expiries(redis: BytesClient, keys: readonly (string | Buffer)[]): Promise<number[]> {
  const replies = await Promise.all(keys.map((key) => redis.sendCommand(['PEXPIRETIME', key])))
  return replies.map(Number)
}

/** Sets keys `<name><from>` and so on, without a TTL. */
export async function fill(redis: BytesClient, name: string, count: number, from = 0): Promise<void> {
  const script = "for i = ARGV[2], ARGV[3] do redis.call('SET', ARGV[1] .. string.format('%.0f', i), 'x') end"
  for (let first = from; first < from + count; first += 10_000) {
    const last = Math.min(first + 10_000, from + count) - 1
    await redis.sendCommand(['EVAL', script, '0', name, `${first}`, `${last}`])
  }
}

/** Connects to a database as the command does. @param token of its REST interface */
export async function openDatabase(url: string, token?: string): Promise<Connection> {
  const variables = { UPSTASH_REDIS_REST_TOKEN: token }
  const settings = { variables, sources: new Map(), file: undefined, devVars: undefined, root: [] }
  const [connection] = await connect(settings, {}, url, { silenceMs: PATIENT_SILENCE_MS })
  if (!connection) throw new Error('no connection')
  return connection
}

/** A connection that answers each SCAN in another way. @param change gets a function that sends it */
export function withScan(
  connection: Connection,
  change: (scan: () => Promise<unknown>) => Promise<unknown>,
): Connection {
  const send: Connection['send'] = (command) =>
    command[0] === 'SCAN' ? change(() => connection.send(command)) : connection.send(command)
  return Object.create(connection, { send: { value: send } })
}
