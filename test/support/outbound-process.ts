/** A process of its own that calls an API through outbound(), all calls at once, as soon as it is told to. */
import { once } from 'node:events'
import { Redis } from '@upstash/redis'
import { upstashStore } from '../../src/gateway/upstash-store.ts'
import type { Tier } from '../../src/limit/rule.ts'
import { outbound } from '../../src/outbound.ts'
import { opened, storeLimiter } from './store-limiter.ts'

export interface ProcessOptions {
  readonly apiUrl: string
  readonly restUrl: string
  readonly token: string
  readonly prefix: string
  readonly calls: number
  /** Limits to keep; none, those that the API tells of. */
  readonly tiers: readonly Tier[]
}

const { apiUrl, restUrl, token, prefix, calls, tiers } = JSON.parse(process.argv[2] ?? '') as ProcessOptions

const store = upstashStore({ url: restUrl, token, algorithms: ['concurrency', 'sliding-window'], timeoutMs: 60_000 })
const redis = new Redis({ url: restUrl, token, enableTelemetry: false })
const call = outbound(fetch, {
  ...(tiers.length > 0 && { limiter: storeLimiter(store, tiers, prefix) }),
  identity: 'partner',
  learned: {
    store: opened(store),
    notes: { read: (key) => redis.get(key), write: (key, text, px) => redis.set(key, text, { px }) },
    prefix,
  },
  atMostMs: Number.POSITIVE_INFINITY,
  retries: 0,
})

process.stdout.write('ready\n')
await once(process.stdin, 'data')
const responses = await Promise.all(Array.from({ length: calls }, () => call(apiUrl)))
process.stdout.write(`${JSON.stringify(responses.map(({ status }) => status))}\n`)
process.exit()
