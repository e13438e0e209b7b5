/**
 * What any limiter on one REST call has to do at least, and nothing else: the call and the proxied request, each within
 * a deadline, what the API must know of its client, and what the client must know of its limit.
 */
import type { Bindings } from './compared-worker.ts'

/** Sluice waits as long by default. */
const [STORE_TIMEOUT_MS, UPSTREAM_TIMEOUT_MS] = [5_000, 30_000]

export default {
  async fetch(request: Request, env: Bindings): Promise<Response> {
    const called = fetch(env.UPSTASH_REDIS_REST_URL, {
      method: 'POST',
      headers: { Authorization: `Bearer ${env.UPSTASH_REDIS_REST_TOKEN}`, 'Content-Type': 'application/json' },
      body: '["PING"]',
    })
    const answer = await waitWithin(STORE_TIMEOUT_MS, called)
    const { result } = JSON.parse(await answer.text()) as { result?: string }
    if (result !== 'PONG') throw new Error('Redis does not answer')
    const { pathname, search } = new URL(request.url)
    const headers = new Headers(request.headers)
    headers.append('Via', '1.1 floor')
    headers.set('X-Forwarded-For', request.headers.get('CF-Connecting-IP') ?? 'unknown')
    headers.set('X-Forwarded-Host', request.headers.get('Host') ?? '')
    const proxied = await waitWithin(UPSTREAM_TIMEOUT_MS, fetch(env.UPSTREAM_URL + pathname + search, { headers }))
    const response = new Response(proxied.body, proxied)
    response.headers.append('RateLimit-Policy', '"default";q=1000000;w=10')
    response.headers.append('RateLimit', '"default";r=999999;t=10')
    return response
  },
}

async function waitWithin<T>(timeoutMs: number, work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error('too late')), timeoutMs)
  try {
    return await Promise.race([work, late.promise])
  } finally {
    clearTimeout(timer)
  }
}
