import { rulesKey } from '../../src/rules/gateway-rules.ts'
import { nodeRedisClient } from '../../src/store/redis/clients/node-redis.ts'
import { RedisDocuments } from '../../src/store/redis/documents/redis-documents.ts'
import { startRedisServer } from '../../tools/redis-server.ts'
import { type RestFront, startRestFront } from '../../tools/rest-front.ts'
import { PLANTED } from '../setup/secret-watch.ts'
import type { Bundle } from '../support/build-bundle.ts'
import { type DirectGateway, startDirectGateway } from '../support/direct-gateway.ts'
import { connectRedis } from '../support/script-store.ts'
import { startUpstream } from '../support/upstream.ts'

export const IDENTITY_SECRET = `${PLANTED}-of-identities`
export const KEY_PREFIX = 'numbers'
const REST_TOKEN = `${PLANTED}-rest-token`

const VARIABLES = {
  IDENTITY_SECRET,
  KEY_PREFIX,
  RATE_LIMITS: '50000/1m',
  POLICIES: [
    { name: 'items', limits: '20/1s, 100/1m', match: 'GET /items/:id' },
    { name: 'login', limits: '20/1m', by: 'ip', match: 'POST /login/:realm' },
    { name: 'account', limits: '100000/1m', missing: 'deny:401', match: 'GET /account' },
    { name: 'costly', limits: '300/1m', cost: 'header:X-Cost', max_cost: 9, match: 'GET /costly' },
    {
      name: 'shared',
      limits: '200/1m',
      algorithm: 'quota',
      by: 'global',
      reserve: { default: 0.5 },
      match: 'GET /bulk',
    },
    { name: 'bulk', priority: 'sheddable', match: 'GET /bulk, GET /overload' },
    { name: 'closed', limits: '100000/1m', on_store_error: 'closed', match: 'GET /closed' },
    { name: 'open', limits: '100000/1m', on_store_error: 'open', match: 'GET /open' },
    { name: 'trial', limits: '30/1m', mode: 'shadow', match: 'GET /items/:id' },
  ],
  SHEDDING: 'on',
  LEASES: 'auto',
  STORE_TIMEOUT_MS: 30_000,
  STATISTICS: 'on',
  LOG_LIMITED: '0.1',
  CALLER_LABEL: 'header:X-Account-Name',
  RULES: 'on',
}

/** Nobody else comes from there. */
export const BLOCKED_ADDRESS = '198.51.100.7'
const RULES = { blocks: [{ cidr: '198.51.100.0/24', status: 404 }] }

export interface Site {
  readonly redisPort: number
  /** Of Redis over REST. */
  readonly rest: { readonly url: string; readonly token: string }
  readonly gateways: readonly DirectGateway[]
  /** Redis is out of reach while this runs. */
  withoutRedis(work: () => Promise<void>): Promise<void>
  stop(): Promise<void>
}

/** Two points of presence that count, before an API that fails where it is asked to. */
export async function startSite(bundle: Bundle): Promise<Site> {
  const stops: (() => Promise<void>)[] = []
  const started = async <T extends { stop(): Promise<void> }>(starting: Promise<T>): Promise<T> => {
    const part = await starting
    stops.unshift(() => part.stop())
    return part
  }
  const stop = async () => {
    for (const stop of stops) await stop()
  }
  try {
    const redis = await started(startRedisServer())
    let front: RestFront = await startRestFront({ redisPort: redis.port, token: REST_TOKEN })
    stops.unshift(() => front.stop())
    const upstream = await started(
      startUpstream(({ url }, response) => {
        if (url === '/failing') response.statusCode = 500
        if (url === '/overload') response.writeHead(503, { 'Retry-After': '1', 'X-From-Api': 'yes' })
        else response.setHeader('X-From-Api', 'yes')
        response.end('hello')
      }),
    )
    const bindings = {
      ...VARIABLES,
      UPSTREAM_URL: upstream.url,
      UPSTASH_REDIS_REST_URL: front.url,
      UPSTASH_REDIS_REST_TOKEN: REST_TOKEN,
    }
    await writeRules(redis.port)
    const gateways = await Promise.all([1, 2].map(() => started(startDirectGateway({ bundle, bindings }))))
    const port = Number(new URL(front.url).port)
    return {
      redisPort: redis.port,
      rest: { url: front.url, token: REST_TOKEN },
      gateways,
      async withoutRedis(work) {
        await front.stop()
        await work()
        front = await startRestFront({ redisPort: redis.port, token: REST_TOKEN, port })
      },
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

async function writeRules(redisPort: number): Promise<void> {
  const redis = await connectRedis(redisPort)
  const client = nodeRedisClient(redis)
  const documents = new RedisDocuments({ client, key: rulesKey(KEY_PREFIX), timeoutMs: 10_000 })
  await documents.write({ text: JSON.stringify(RULES), expectedVersion: 0, by: 'test', why: 'test' })
  await redis.close()
}
