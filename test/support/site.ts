import type { RequestListener } from 'node:http'
import { type RedisServer, startRedisServer } from '../../tools/redis-server.ts'
import { type RestFront, startRestFront } from '../../tools/rest-front.ts'
import { PLANTED } from '../setup/secret-watch.ts'
import type { Bundle } from './build-bundle.ts'
import { type DirectGateway, type DirectGatewayOptions, startDirectGateway } from './direct-gateway.ts'
import { type Adding, type Part, startParts } from './parts.ts'
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

type Points = Omit<DirectGatewayOptions, 'bindings'> & Pick<SiteOptions, 'points' | 'variables'>

/** Starts points of presence before an API, over the Redis behind a front. */
export function startPoints(
  add: Adding,
  { points, variables, ...options }: Points,
  upstream: { readonly url: string },
  front: Pick<RestFront, 'url' | 'token'>,
): Promise<DirectGateway[]> {
  const bindings = {
    UPSTREAM_URL: upstream.url,
    UPSTASH_REDIS_REST_URL: front.url,
    UPSTASH_REDIS_REST_TOKEN: front.token,
    ...PATIENT,
    ...variables,
  }
  return Promise.all(Array.from({ length: points }, () => add(startDirectGateway({ ...options, bindings }))))
}

/** Points of presence before an API, over a Redis of their own. */
export interface Site extends Part {
  readonly redis: RedisServer
  readonly front: RestFront
  readonly urls: readonly URL[]
  /** Lines of the gateways' log so far. */
  readonly log: readonly string[]
  /** Redis cannot be reached while this runs. */
  withoutStore(work: () => Promise<void>): Promise<void>
}

export function startSite({ bundle, points, variables, api = answerArrival }: SiteOptions): Promise<Site> {
  return startParts(async (add) => {
    const upstream = await add(startUpstream(api))
    const redis = await add(startRedisServer())
    const options = { redisPort: redis.port, token: `${PLANTED}-rest-token` }
    let front = await startRestFront(options)
    await add({ stop: () => front.stop() })
    const gateways = await startPoints(add, { bundle, points, variables }, upstream, front)
    return {
      redis,
      get front() {
        return front
      },
      urls: gateways.map(({ url }) => url),
      get log() {
        return gateways.flatMap(({ log }) => log)
      },
      async withoutStore(work) {
        await front.stop()
        await work()
        front = await startRestFront({ ...options, port: Number(new URL(front.url).port) })
      },
    }
  })
}
