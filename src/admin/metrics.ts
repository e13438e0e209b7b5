/** What a Prometheus scrapes. Loaded only where there is a token for it. */
import { version } from '../../package.json'
import type { AdminHandler } from '../gateway/app.ts'
import { type Problem, problemResponse } from '../http/problem.ts'
import { StoreError } from '../model/store.ts'
import { toMetricFamilies } from '../statistics/metrics.ts'
import { formatOpenMetrics, info, OPEN_METRICS_TYPE } from '../statistics/open-metrics.ts'
import { readTotals } from '../statistics/read-statistics.ts'
import type { StatisticsStore } from '../store/counters.ts'
import { createTokenCheck, readBearerToken } from './auth.ts'
import { createStoreProblem } from './operation.ts'

export interface MetricsConfig {
  /** At least 32 characters. */
  readonly token: string
}

const PATH = '/_sluice/metrics'

const HEADERS = { 'Content-Type': OPEN_METRICS_TYPE, 'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff' }

const NOT_ALLOWED: Problem = {
  status: 405,
  title: 'Method Not Allowed',
  detail: 'This is asked with GET.',
  headers: { Allow: 'GET, HEAD' },
}
const UNAUTHORIZED: Problem = {
  status: 401,
  title: 'Unauthorized',
  detail: 'This needs METRICS_TOKEN, as Authorization: Bearer.',
  headers: { 'WWW-Authenticate': 'Bearer realm="sluice-metrics"' },
}

/** Makes what answers with everything that all isolates have counted so far. */
export function createMetrics({ token }: MetricsConfig, counters: StatisticsStore): AdminHandler {
  const isToken = createTokenCheck(token)

  return async function metrics(request, { path: { canonical } }) {
    if (canonical !== PATH) return undefined
    if (!/^(?:GET|HEAD)$/.test(request.method)) return problemResponse(NOT_ALLOWED)
    if (!isToken(readBearerToken(request) ?? '')) return problemResponse(UNAUTHORIZED)
    try {
      const build = info('sluice_build', 'The version that has answered.', { version })
      const text = formatOpenMetrics([build, ...toMetricFamilies(await readTotals(counters))])
      return new Response(request.method === 'HEAD' ? null : text, { headers: HEADERS })
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      return problemResponse(createStoreProblem(error))
    }
  }
}
