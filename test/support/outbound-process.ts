/** A process of its own that calls an API through outbound(), all calls at once, as soon as it is told to. */
import { once } from 'node:events'
import { flushCompileCache } from 'node:module'
import { createClient } from '@redis/client'
import { createLimiter, redisStore } from '../../src/index.ts'
import { OutboundError, type OutboundErrorCode, outbound } from '../../src/outbound.ts'

export interface ProcessOptions {
  readonly apiUrl: string
  readonly redisPort: number
  readonly prefix: string
  readonly calls: number
  /** Limits to keep; if left out, those that the API tells of. */
  readonly limits?: string
  /** How often a call may be made. */
  readonly attempts?: number
  /** How long a call may wait; without end if left out. */
  readonly maxWaitMs?: number
}

/** What became of a call: its status, or why it was not made. */
export type Outcome = number | OutboundErrorCode

const options = JSON.parse(process.argv[2] ?? '') as ProcessOptions
const { apiUrl, redisPort, prefix, calls, limits, attempts = 1, maxWaitMs = Number.POSITIVE_INFINITY } = options

const redis = await createClient({ socket: { host: '127.0.0.1', port: redisPort } }).connect()
// A slow machine is no reason to count on one's own.
const store = redisStore(redis, { timeoutMs: 60_000 })
const call = outbound(fetch, {
  ...(limits !== undefined && { limiter: createLimiter({ store, limits, keyPrefix: prefix }) }),
  resource: () => 'partner',
  maxWaitMs,
  retry: { attempts },
})

// Its end may be too sudden for that.
flushCompileCache()
process.stdout.write('ready\n')
await once(process.stdin, 'data')
const made = Array.from({ length: calls }, async (): Promise<Outcome> => {
  try {
    return (await call(apiUrl)).status
  } catch (error) {
    if (error instanceof OutboundError) return error.code
    throw error
  }
})
process.stdout.write(`${JSON.stringify(await Promise.all(made))}\n`)
process.exit()
