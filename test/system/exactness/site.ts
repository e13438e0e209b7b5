import { startRedisServer } from '../../../tools/redis-server.ts'
import { startRestFront } from '../../../tools/rest-front.ts'
import type { Bundle } from '../../support/build-bundle.ts'
import { type Part, startParts } from '../../support/parts.ts'
import { startPointOfPresence } from '../../support/point-of-presence.ts'
import { startUpstream } from '../../support/upstream.ts'

const POINTS = 4

export interface Site extends Part {
  readonly redisPort: number
  readonly gateways: readonly URL[]
}

/** Starts four points of presence before an API that tells when a request reaches it, over a Redis of their own. */
export async function startSite(bundle: Bundle, variables: Readonly<Record<string, unknown>>): Promise<Site> {
  return startParts(async (add) => {
    const redis = await add(startRedisServer())
    const front = await add(startRestFront({ redisPort: redis.port, token: 'exactness' }))
    const upstream = await add(
      startUpstream((_request, response) => response.setHeader('X-Arrived-Ms', Date.now()).end('hello')),
    )
    const bindings = {
      UPSTREAM_URL: upstream.url,
      UPSTASH_REDIS_REST_URL: front.url,
      UPSTASH_REDIS_REST_TOKEN: front.token,
      // A slow machine is no reason to count on one's own.
      STORE_TIMEOUT_MS: 30_000,
      ON_STORE_ERROR: 'closed',
      ...variables,
    }
    const starting = Array.from({ length: POINTS }, () => add(startPointOfPresence(bundle, bindings)))
    const points = await Promise.all(starting)
    return { redisPort: redis.port, gateways: points.map(({ url }) => url) }
  })
}
