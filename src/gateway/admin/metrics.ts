/** Answers Prometheus. Loaded only if there is a METRICS_TOKEN. */
import manifest from '../../../package.json' with { type: 'json' }
import { StoreError } from '../../core/model/store.ts'
import type { StatisticsStore } from '../../core/store/counters.ts'
import { createProblemResponse } from '../../http/response/problem.ts'
import { createTokenCheck } from '../api/auth.ts'
import type { RouteHandler } from '../api/route.ts'
import { createGuard, HEADERS } from '../api/route.ts'
import { summarize, toMetricFamilies } from '../statistics/metrics.ts'
import { createInfo, formatOpenMetrics, OPEN_METRICS_TYPE } from '../statistics/open-metrics.ts'
import { createStoreProblem } from './operation.ts'

export function createMetrics({ token }: { readonly token: string }, counters: StatisticsStore): RouteHandler {
  const guard = createGuard(createTokenCheck(token), 'METRICS_TOKEN', 'sluice-metrics')

  return guard(['GET', 'HEAD'], async function answerMetrics(request) {
    try {
      const build = createInfo('sluice_build', 'The version that has answered.', { version: manifest.version })
      const text = formatOpenMetrics([build, ...toMetricFamilies(summarize(await counters.readTotals()))])
      return new Response(request.method === 'HEAD' ? null : text, {
        headers: { ...HEADERS, 'Content-Type': OPEN_METRICS_TYPE },
      })
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      return createProblemResponse(createStoreProblem(error))
    }
  })
}
