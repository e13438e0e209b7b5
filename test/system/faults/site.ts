import { type FaultyFront, startFaultyFront } from '../../../tools/faulty-front.ts'
import { type RestFront, startRestFront } from '../../../tools/rest-front.ts'
import { type Bundle, buildBundle, removeBundle } from '../../support/build-bundle.ts'
import { type DirectGateway, startDirectGateway } from '../../support/direct-gateway.ts'
import { LOCAL_SHARE, PLANTED, policiesOf } from './callers.ts'
import { FaultyRedis } from './redis.ts'
import type { Length } from './scenario.ts'
import { startTraffic } from './traffic.ts'
import { type FaultyUpstream, startFaultyUpstream } from './upstream.ts'

const WARM_UP_REQUESTS_A_POINT = 75
/** Half of what Cloudflare gives an isolate. workerd has no limit of its own, and ends when this one is passed. */
const V8_FLAGS = ['--max-heap-size=64']
const KEY_PREFIX = 'faults'

/** All that a scenario can break: points of presence on one Redis, behind a REST front, before one API. */
export interface Site {
  readonly points: readonly DirectGateway[]
  readonly redis: FaultyRedis
  /** Serves the Redis. */
  readonly rest: RestFront
  /** Stands before it. */
  readonly front: FaultyFront
  readonly upstream: FaultyUpstream
  readonly keyPrefix: string
  stop(): Promise<void>
}

/** @param given the production bundle; built if there is none */
export async function startSite(length: Length, given?: Bundle): Promise<Site> {
  const bundle = given ?? (await buildBundle())
  const redis = await FaultyRedis.start()
  const rest = await startRestFront({ redisPort: redis.port, token: PLANTED.restToken })
  const front = await startFaultyFront({ target: rest.url })
  const upstream = await startFaultyUpstream()
  const bindings = {
    UPSTREAM_URL: upstream.url,
    UPSTREAM_TIMEOUT_MS: length.upstreamTimeoutMs,
    UPSTASH_REDIS_REST_URL: front.url,
    UPSTASH_REDIS_REST_TOKEN: PLANTED.restToken,
    IDENTITY_SECRET: PLANTED.identitySecret,
    KEY_PREFIX,
    POLICIES: policiesOf(length),
    STORE_TIMEOUT_MS: length.storeTimeoutMs,
    ON_STORE_ERROR: 'local',
    LOCAL_SHARE,
  }
  const points = await Promise.all(
    Array.from({ length: length.points }, () => startDirectGateway({ bundle, bindings, v8Flags: V8_FLAGS })),
  )
  // Compiled, connected, and as large as it is going to be.
  const urls = points.map(({ url }) => url)
  const traffic = startTraffic({ ...length, points: urls, upstream })
  await traffic.answered(WARM_UP_REQUESTS_A_POINT * length.points)
  await traffic.stop()
  return {
    points,
    redis,
    rest,
    front,
    upstream,
    keyPrefix: KEY_PREFIX,
    async stop() {
      await Promise.all(points.map((point) => point.stop()))
      await Promise.all([front.stop(), upstream.stop()])
      await rest.stop()
      await redis.stop()
      if (!given) await removeBundle(bundle)
    },
  }
}
