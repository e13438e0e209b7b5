/** The parts that the gateways of all peers share. */

/** The variables of a peer's Worker. */
export interface Bindings {
  UPSTREAM_URL: string
  UPSTASH_REDIS_REST_URL: string
  UPSTASH_REDIS_REST_TOKEN: string
  /** `<limit>/<window ms>`, commas between. */
  LIMITS: string
  ALGORITHM?: 'fixedWindow' | 'slidingWindow' | 'tokenBucket'
}

export function readLimits(list: string): { limit: number; windowMs: number }[] {
  return list.split(',').map((text) => {
    const [limit, windowMs] = text.split('/').map(Number)
    if (!limit || !windowMs) throw new Error(`not a limit: ${text}`)
    return { limit, windowMs }
  })
}

/** What every compared gateway does with an admitted request: the least that a proxy must do. */
export function forward(request: Request, upstreamUrl: string): Promise<Response> {
  const { pathname, search } = new URL(request.url)
  return fetch(new Request(upstreamUrl + pathname + search, request), { redirect: 'manual' })
}
