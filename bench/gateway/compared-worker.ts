/** Variables of the peers' gateways. */
export interface Bindings {
  UPSTREAM_URL: string
  UPSTASH_REDIS_REST_URL: string
  UPSTASH_REDIS_REST_TOKEN: string
  /** `<limit>/<window ms>`, commas between. */
  TIERS: string
  ALGORITHM?: 'fixedWindow' | 'slidingWindow' | 'tokenBucket'
}

export function tiersOf(text: string): { limit: number; windowMs: number }[] {
  return text.split(',').map((tier) => {
    const [limit, windowMs] = tier.split('/').map(Number)
    if (!limit || !windowMs) throw new Error(`not a tier: ${tier}`)
    return { limit, windowMs }
  })
}

/** What every compared gateway does with an admitted request: the least that a proxy must do. */
export function forward(request: Request, upstreamUrl: string): Promise<Response> {
  const { pathname, search } = new URL(request.url)
  return fetch(new Request(upstreamUrl + pathname + search, request), { redirect: 'manual' })
}
