import type { Config } from '../../config/load-config.ts'
import type { Finding } from './finding.ts'

/** A decision that may take longer than the API itself. */
export function timeoutMistakes({ storeTimeoutMs, upstreamTimeoutMs }: Config): readonly Finding[] {
  if (storeTimeoutMs <= upstreamTimeoutMs) return []
  return [
    {
      rule: 'store-timeout',
      message: `STORE_TIMEOUT_MS (${storeTimeoutMs}) is above UPSTREAM_TIMEOUT_MS (${upstreamTimeoutMs}): a request may wait for Redis longer than for the API`,
      hint: 'Half a second is long for a Redis nearby.',
      variable: 'STORE_TIMEOUT_MS',
    },
  ]
}
