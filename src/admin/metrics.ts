/** Answers Prometheus. Loaded only if there is a METRICS_TOKEN. */
import manifest from '../../package.json' with { type: 'json' }
import type { RouteHandler } from '../gateway/app.ts'
import { createProblem, createProblemResponse } from '../http/problem.ts'
import { StoreError } from '../model/store.ts'
import { summarize, toMetricFamilies } from '../statistics/metrics.ts'
import { createInfo, formatOpenMetrics, OPEN_METRICS_TYPE } from '../statistics/open-metrics.ts'
import type { StatisticsStore } from '../store/counters.ts'
import { createTokenCheck, readBearerToken } from './auth.ts'
import { createStoreProblem, HEADERS } from './operation.ts'

const WRONG_METHOD = createProblem('method_not_allowed', 405, 'Method not allowed; use GET.', {
  headers: { Allow: 'GET, HEAD' },
})
const UNAUTHORIZED = createProblem('unauthorized', 401, 'Missing or invalid METRICS_TOKEN (Authorization: Bearer).', {
  headers: { 'WWW-Authenticate': 'Bearer realm="sluice-metrics"' },
})

export function createMetrics({ token }: { readonly token: string }, counters: StatisticsStore): RouteHandler {
  const isToken = createTokenCheck(token)

  return async function answerMetrics(request) {
    if (!/^(?:GET|HEAD)$/.test(request.method)) return createProblemResponse(WRONG_METHOD)
    if (!isToken(readBearerToken(request) ?? '')) return createProblemResponse(UNAUTHORIZED)
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
  }
}
