/**
 * Counts the files and functions of `src` that one call enters, warm: what somebody who follows it reads.
 *
 *     node bench/functions.ts
 *     node bench/functions.ts outbound
 */
import { Session } from 'node:inspector/promises'
import { createGateway } from '../src/gateway/create-gateway.ts'
import { createRequestContext } from '../src/http/response/exchange.ts'
import { createLimiter, redisStore, slidingWindow } from '../src/index.ts'
import { outbound } from '../src/outbound.ts'
import { createRequestDecider } from '../src/ratelimit-service/decide-request.ts'
import { HitCounts } from '../src/ratelimit-service/hit-counts.ts'
import { readDomains } from '../src/ratelimit-service/rate-limits.ts'
import { connectRedis } from '../test/support/redis-client.ts'
import { startRedisServer } from '../tools/redis-server.ts'
import { startRestFront } from '../tools/rest-front.ts'

const WARM_CALLS = 20
const LIMITS = '100000/1m'
const TOKEN = 'counted-rest-token'
const ADMIN_TOKEN = 'counted-admin-token-of-32-characters'
const UPSTREAM = { fetch: async () => new Response('ok') }

const session = new Session()
session.connect()
await session.post('Profiler.enable')

type Call = () => Promise<unknown>

async function countFunctions(call: Call): Promise<string> {
  for (let count = 0; count < WARM_CALLS; count++) await call()
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  await call()
  const { result } = await session.post('Profiler.takePreciseCoverage')
  await session.post('Profiler.stopPreciseCoverage')
  const entered = result
    .filter(({ url }) => url.includes('/src/'))
    .map(({ functions }) => functions.filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0).length)
    .filter((count) => count > 0)
  return `${entered.length} files, ${entered.reduce((sum, count) => sum + count, 0)} functions`
}

function callOutbound(headers: Record<string, string>): Call {
  const call = outbound(async () => new Response(null, { headers }), { limits: LIMITS })
  return () => call('https://api.example/repos/octocat')
}

const reset = String(Math.ceil(Date.now() / 1_000) + 3_000)
const OUTBOUND: Readonly<Record<string, Call>> = {
  'outbound, nothing reported': callOutbound({}),
  "outbound, GitHub's headers": callOutbound({
    'x-ratelimit-limit': '5000',
    'x-ratelimit-remaining': '4000',
    'x-ratelimit-reset': reset,
    'x-ratelimit-resource': 'core',
    date: new Date().toUTCString(),
  }),
}

const DESCRIPTORS = {
  domain: 'd',
  descriptors: [{ key: 'user', rate_limit: { unit: 'hour', requests_per_unit: 100_000 } }],
}
const QUESTION = {
  domain: 'd',
  descriptors: [{ entries: [{ key: 'user', value: 'a' }], limit: null, hitsAddend: null, isNegativeHits: false }],
  hitsAddend: 0,
}
const POLICIES = [{ name: 'calls', limits: '5/1s' }]

/** Calls whose counts are in Redis; in the last one, a decision is split over two. */
async function openCalls(): Promise<Readonly<Record<string, Call>>> {
  const servers = await Promise.all([startRedisServer(), startRedisServer()])
  const [client, other] = await Promise.all([connectRedis(servers[0].port), connectRedis(servers[1].port)])
  const front = await startRestFront({ redisPort: servers[0].port, token: TOKEN })
  const redis = { UPSTASH_REDIS_REST_URL: front.url, UPSTASH_REDIS_REST_TOKEN: TOKEN }
  const gateway = await createGateway({ UPSTREAM, RATE_LIMITS: LIMITS, ...redis })
  const operated = await createGateway({ UPSTREAM, RATE_LIMITS: LIMITS, RULES: 'on', ADMIN_TOKEN, ...redis })
  const context = { waitUntil() {}, passThroughOnException() {}, props: {} }
  const send = (app: typeof gateway.app, path: string, init: RequestInit) => async () => {
    const response = await app.fetch(new Request(`https://api.example${path}`, init), {}, context)
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
    await response.text()
  }
  const body = JSON.stringify({ policies: POLICIES })
  const asOperator = { Authorization: `Bearer ${ADMIN_TOKEN}`, 'Content-Type': 'application/json' }
  const inMemory = createLimiter({ limits: LIMITS })
  const overOne = createLimiter({ limits: LIMITS, store: redisStore(client) })
  const shards = [
    { name: 'a', client },
    { name: 'b', client: other },
  ]
  const policies = ['user', 'account'].map((name) => ({ name, ...slidingWindow(LIMITS) }))
  const overTwo = createLimiter({ policies, store: redisStore(shards) })
  const domains = readDomains([{ name: 'limits.yaml', text: JSON.stringify(DESCRIPTORS) }], 'local')
  const { engine, now, log } = gateway.gateway
  const counts = new HitCounts()
  const parts = { engine, now, log, counts, config: gateway.config, watch: undefined, isEachAlone: false }
  const decide = createRequestDecider({ ...parts, note: console.error })
  return {
    'a request through the gateway, Redis': send(gateway.app, '/v1/things', { headers: { Authorization: 'Bearer a' } }),
    'take() in memory': () => inMemory.take('somebody'),
    'take() over Redis': () => overOne.take('somebody'),
    'take() over two databases, two identities': () => overTwo.take({ user: 'somebody', account: 'some' }),
    'a question over gRPC': () =>
      decide(
        QUESTION,
        domains,
        createRequestContext(() => {}, log),
      ),
    'an operator pushes policies': send(operated.app, '/_sluice/admin/policies/push', {
      ...{ method: 'POST', body, headers: asOperator },
    }),
  }
}

const calls = process.argv[2] === 'outbound' ? OUTBOUND : { ...(await openCalls()), ...OUTBOUND }
for (const [name, call] of Object.entries(calls)) console.log(`${name}: ${await countFunctions(call)}`)
process.exit()
