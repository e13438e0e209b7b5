import worker from 'sluice/worker'

/** Statuses of two requests, of which the limit admits one. */
export async function use(apiUrl: string): Promise<readonly number[]> {
  const env = { UPSTREAM_URL: apiUrl, RATE_LIMITS: '1/1m' }
  const ctx = { waitUntil() {}, passThroughOnException() {}, props: {} }
  const request = new Request('https://gateway.example/', { headers: { 'CF-Connecting-IP': '192.0.2.1' } })
  const responses = [await worker.fetch(request, env, ctx), await worker.fetch(request, env, ctx)]
  for (const response of responses) await response.body?.cancel()
  return responses.map(({ status }) => status)
}
