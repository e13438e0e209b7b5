import type { RequestListener } from 'node:http'
import { type RedisServer, startRedisServer } from '../../tools/redis-server.ts'
import { type RestFront, startRestFront } from '../../tools/rest-front.ts'
import { PLANTED } from '../setup/secret-watch.ts'
import type { Bundle } from './build-bundle.ts'
import { type DirectGateway, startDirectGateway } from './direct-gateway.ts'
import { type Part, startParts } from './parts.ts'
import { startUpstream } from './upstream.ts'

/** A slow machine is no reason to decide without the store. */
export const PATIENT = { STORE_TIMEOUT_MS: 30_000, ON_STORE_ERROR: 'closed' } as const

/** An API that reports when a request has reached it. */
export const answerArrival: RequestListener = (_request, response) => {
  response.setHeader('X-Arrived-Ms', Date.now()).end('hello')
}

export interface SiteOptions {
  readonly bundle: Bundle
  readonly points: number
  readonly variables: Readonly<Record<string, unknown>>
  /** Default: `answerArrival`. */
  readonly api?: RequestListener
}

/** Points of presence before an API, over a Redis of their own. */
export interface Site extends Part {
  readonly redis: RedisServer
  readonly front: RestFront
  readonly points: readonly DirectGateway[]
  readonly urls: readonly URL[]
  /** Redis cannot be reached while this runs. */
  withoutFront(work: () => Promise<void>): Promise<void>
}

export function startSite({ bundle, points, variables, api = answerArrival }: SiteOptions): Promise<Site> {
  return startParts(async (add) => {
    const upstream = await add(startUpstream(api))
    const redis = await add(startRedisServer())
    const options = { redisPort: redis.port, token: `${PLANTED}-rest-token` }
    let front = await startRestFront(options)
    await add({ stop: () => front.stop() })
    const bindings = {
      UPSTREAM_URL: upstream.url,
      UPSTASH_REDIS_REST_URL: front.url,
      UPSTASH_REDIS_REST_TOKEN: front.token,
      ...PATIENT,
      ...variables,
    }
    const starting = Array.from({ length: points }, () => add(startDirectGateway({ bundle, bindings })))
    const gateways = await Promise.all(starting)
    return {
      redis,
      get front() {
        return front
      },
      points: gateways,
      urls: gateways.map(({ url }) => url),
      async withoutFront(work) {
        await front.stop()
        await work()
        front = await startRestFront({ ...options, port: Number(new URL(front.url).port) })
      },
    }
  })
}
