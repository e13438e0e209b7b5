/** Answers Prometheus with the hits of each limit of the rate limit service. */
import { createTokenCheck } from '../gateway/api/auth.ts'
import { createGuard, HEADERS } from '../gateway/api/route.ts'
import { createCounter, formatOpenMetrics, OPEN_METRICS_TYPE } from '../gateway/statistics/open-metrics.ts'
import type { HitCount } from '../ratelimit-service/hit-counts.ts'

export const HIT_METRICS_PATH = '/_sluice/ratelimit-metrics'

type Counted = { [Key in keyof HitCount]: HitCount[Key] extends number ? Key : never }[keyof HitCount]

const FAMILIES: Readonly<Record<Counted, readonly [name: string, help: string]>> = {
  hits: ['sluice_ratelimit_hits', 'Hits of each limit.'],
  overLimit: ['sluice_ratelimit_over_limit_hits', 'Hits over the limit, those in shadow mode included.'],
  nearLimit: ['sluice_ratelimit_near_limit_hits', 'Hits beyond four fifths of the limit.'],
  shadow: ['sluice_ratelimit_shadow_hits', 'Hits over the limit that shadow mode let pass.'],
}

export function createHitMetrics(token: string, listCounts: () => readonly HitCount[]) {
  const guard = createGuard(createTokenCheck(token), 'METRICS_TOKEN', 'sluice-metrics')
  return guard(['GET', 'HEAD'], async function answerMetrics(request: Request) {
    const counts = listCounts()
    const families = Object.entries(FAMILIES).map(([kind, [name, help]]) => {
      const samples = counts.map((count) => {
        return [{ domain: count.domain, key: count.key }, count[kind as Counted]] as const
      })
      return createCounter(name, help, samples)
    })
    return new Response(request.method === 'HEAD' ? null : formatOpenMetrics(families), {
      headers: { ...HEADERS, 'Content-Type': OPEN_METRICS_TYPE },
    })
  })
}
