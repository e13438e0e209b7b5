/** Two points of presence whose statistics are compared with what clients saw, over either store. */
import type { RequestListener } from 'node:http'
import type { StatisticsStore } from '../../../src/core/store/counters.ts'
import { openObjectCounters, openObjectDocuments } from '../../../src/core/store/durable-object/tables.ts'
import { RedisCounters } from '../../../src/core/store/redis/counters/redis-counters.ts'
import { RedisDocuments } from '../../../src/core/store/redis/documents/redis-documents.ts'
import { adaptNodeRedis } from '../../../src/core/store/redis/tcp-clients.ts'
import { formatRulesKey } from '../../../src/gateway/rules/open-rules.ts'
import { PLANTED } from '../../setup/secret-watch.ts'
import type { Bundle } from '../../support/build-bundle.ts'
import { startObjectSite } from '../../support/object-site.ts'
import { type Part, startParts } from '../../support/parts.ts'
import { connectRedis } from '../../support/redis-client.ts'
import { type Site as RedisSite, startSite as startRedisSite } from '../../support/site.ts'

export const IDENTITY_SECRET = `${PLANTED}-of-identities`
const KEY_PREFIX = 'numbers'

const VARIABLES = {
  IDENTITY_SECRET,
  KEY_PREFIX,
  RATE_LIMITS: '50000/1m',
  POLICIES: [
    { name: 'items', limits: '20/1s, 100/1m', match: 'GET /items/:id' },
    // Longer than any run: that it refuses some does not depend on how fast they come.
    { name: 'login', limits: '20/1h', by: 'ip', match: 'POST /login/:realm' },
    { name: 'account', limits: '100000/1m', anonymous: 'deny:401', match: 'GET /account' },
    { name: 'costly', limits: '300/1m', cost: 'header:X-Cost', max_cost: 9, match: 'GET /costly' },
    {
      ...{ name: 'shared', limits: '200/1m', algorithm: 'quota', by: 'global', match: 'GET /bulk' },
      reserve: { default: 0.5 },
    },
    { name: 'bulk', priority: 'sheddable', match: 'GET /bulk, GET /overload' },
    { name: 'closed', limits: '100000/1m', on_store_error: 'closed', match: 'GET /closed' },
    { name: 'open', limits: '100000/1m', on_store_error: 'open', match: 'GET /open' },
    { name: 'trial', limits: '30/1m', mode: 'shadow', match: 'GET /items/:id' },
  ],
  SHEDDING: 'on',
  LEASES: 'auto',
  STORE_TIMEOUT_MS: 30_000,
  ON_STORE_ERROR: 'local',
  STATISTICS: 'on',
  LOG_REFUSALS: '0.1',
  CALLER_LABEL: 'header:X-Account-Name',
  RULES: 'on',
}

/** Nobody else comes from there. */
export const BLOCKED_ADDRESS = '198.51.100.7'
const RULES = { blocks: [{ cidr: '198.51.100.0/24', status: 404 }] }

export interface Site extends Part {
  readonly gateways: Pick<RedisSite, 'urls' | 'log' | 'withoutStore'>
  /** What they have counted. */
  readonly counters: StatisticsStore
  /** All keys, or names of objects. */
  listKeys(): Promise<readonly string[]>
}

const api: RequestListener = ({ url }, response) => {
  if (url === '/failing') response.statusCode = 500
  if (url === '/overload') response.writeHead(503, { 'Retry-After': '1', 'X-From-Api': 'yes' })
  else response.setHeader('X-From-Api', 'yes')
  response.end('hello')
}

/** Starts both before an API that fails at two of its paths. */
export function startSite(bundle: Bundle, store: string): Promise<Site> {
  if (store !== 'redis' && store !== 'durable-object') throw new Error('--store: redis or durable-object')
  const options = { bundle, points: 2, variables: VARIABLES, api }
  const key = formatRulesKey(KEY_PREFIX)
  return startParts(async (add) => {
    const edit = { text: JSON.stringify(RULES), expectedVersion: 0, actor: 'test', comment: 'test' }
    if (store === 'durable-object') {
      const gateways = await add(startObjectSite(options))
      const backend = { namespace: gateways.namespace, timeoutMs: 10_000 }
      await openObjectDocuments({ ...backend, key }).write(edit)
      const counters = openObjectCounters({ ...backend, keyPrefix: KEY_PREFIX })
      return { gateways, counters, listKeys: gateways.names }
    }
    const gateways = await add(startRedisSite(options))
    const redis = await connectRedis(gateways.redis.port)
    await add({ stop: () => redis.close() })
    const backend = { client: adaptNodeRedis(redis), timeoutMs: 10_000 }
    await new RedisDocuments({ ...backend, key }).write(edit)
    const counters = new RedisCounters({ ...backend, keyPrefix: KEY_PREFIX })
    const listKeys = () => redis.keys(`${KEY_PREFIX}:*`)
    return { gateways, counters, listKeys }
  })
}
