import { type FaultyFront, startFaultyFront } from '../../../tools/faulty-front.ts'
import { type RestFront, startRestFront } from '../../../tools/rest-front.ts'
import type { Bundle } from '../../support/build-bundle.ts'
import type { DirectGateway } from '../../support/direct-gateway.ts'
import { type Part, startParts } from '../../support/parts.ts'
import { startPoints } from '../../support/site.ts'
import { LOCAL_SHARE, PLANTED, POLICIES } from './callers.ts'
import type { Length } from './fault.ts'
import { FaultyRedis } from './redis.ts'
import { startTraffic, waitForAnswers } from './traffic.ts'
import { type FaultyUpstream, startFaultyUpstream } from './upstream.ts'

const WARM_UP_REQUESTS_A_POINT = 75
/** Half of what Cloudflare gives an isolate. workerd has no limit of its own, and ends when this one is passed. */
const V8_FLAGS = ['--max-heap-size=64']
const KEY_PREFIX = 'faults'

/** All that a scenario can break: points of presence on one Redis, behind a REST front, before one API. */
export interface Site extends Part {
  readonly points: readonly DirectGateway[]
  readonly redis: FaultyRedis
  /** Serves the Redis. */
  readonly rest: RestFront
  /** Stands before it. */
  readonly front: FaultyFront
  readonly upstream: FaultyUpstream
  readonly keyPrefix: string
}

export function startSite(length: Length, bundle: Bundle): Promise<Site> {
  return startParts(async (add) => {
    const redis = await add(FaultyRedis.start())
    const rest = await add(startRestFront({ redisPort: redis.port, token: PLANTED.restToken }))
    const front = await add(startFaultyFront({ target: rest.url }))
    const upstream = await add(startFaultyUpstream())
    const variables = {
      UPSTREAM_TIMEOUT_MS: length.upstreamTimeoutMs,
      STORE_TIMEOUT_MS: length.storeTimeoutMs,
      ON_STORE_ERROR: 'local',
      IDENTITY_SECRET: PLANTED.identitySecret,
      ...{ KEY_PREFIX, POLICIES, LOCAL_SHARE },
    }
    const options = { bundle, points: length.points, variables, v8Flags: V8_FLAGS }
    const points = await startPoints(add, options, upstream, { url: front.url, token: PLANTED.restToken })
    // Compiled, connected, and as large as it is going to be.
    const traffic = startTraffic({ points, upstream }, length)
    await waitForAnswers(traffic, WARM_UP_REQUESTS_A_POINT * length.points)
    await traffic.stop()
    return { points, redis, rest, front, upstream, keyPrefix: KEY_PREFIX }
  })
}
