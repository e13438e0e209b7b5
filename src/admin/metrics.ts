/** Answers Prometheus. Loaded only if there is a METRICS_TOKEN. */
import manifest from '../../package.json' with { type: 'json' }
import type { RouteHandler } from '../gateway/app.ts'
import { createProblemResponse } from '../http/problem.ts'
import { StoreError } from '../model/store.ts'
import { summarize, toMetricFamilies } from '../statistics/metrics.ts'
import { createInfo, formatOpenMetrics, OPEN_METRICS_TYPE } from '../statistics/open-metrics.ts'
import type { StatisticsStore } from '../store/counters.ts'
import { createGuard, createTokenCheck } from './auth.ts'
import { createStoreProblem, HEADERS } from './operation.ts'

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
