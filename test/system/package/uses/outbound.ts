import { OutboundError, outbound, throttle } from 'sluice/outbound'

/** Statuses of two calls, and the code of one for which there is no time. */
export async function use(apiUrl: string): Promise<readonly unknown[]> {
  const call = outbound(fetch, { resource: () => 'api' })
  const limiter = { take: async () => ({ granted: false, retryAfterMs: 1_000 }) }
  const late = throttle(() => 'called', { limiter, identity: 'api', maxWaitMs: 10 })
  const responses = [await call(apiUrl), await call(new URL(apiUrl))]
  for (const response of responses) await response.body?.cancel()
  const refused = await late().catch((error: unknown) => error instanceof OutboundError && error.code)
  return [...responses.map(({ status }) => status), refused]
}
