/** What a Prometheus scrapes. Loaded only where there is a token for it. */
import { version } from '../../../package.json'
import type { Operate } from '../../gateway/app.ts'
import { problemResponse, retryAfter, TEMPORARY_REDUCED_CAPACITY } from '../../http/problem.ts'
import { StoreError } from '../../model/store.ts'
import { readTotals } from '../../statistics/read-statistics.ts'
import type { Counters } from '../../store/counters.ts'
import { createTokenCheck } from '../token.ts'
import { familiesOf } from './families.ts'
import { OPEN_METRICS_TYPE, openMetrics } from './open-metrics.ts'

export interface MetricsConfig {
  /** At least 32 characters. */
  readonly token: string
}

const PATH = '/_sluice/metrics'

/** Makes what answers with the numbers of all isolates since they began to be counted. */
export function createMetrics({ token }: MetricsConfig, counters: Counters): Operate {
  const isToken = createTokenCheck(token)

  return async function metrics(request, { path: { canonical } }) {
    if (canonical !== PATH) return undefined
    if (!/^(?:GET|HEAD)$/.test(request.method)) {
      const detail = 'This is asked with GET.'
      return problemResponse({ status: 405, title: 'Method Not Allowed', detail, headers: { Allow: 'GET, HEAD' } })
    }
    const [, sent = ''] = /^Bearer +(\S+) *$/i.exec(request.headers.get('Authorization') ?? '') ?? []
    if (!isToken(sent)) return unauthorized()
    try {
      const text = openMetrics(familiesOf(await readTotals(counters), version))
      return new Response(request.method === 'HEAD' ? null : text, { headers: HEADERS })
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      return unavailable(error)
    }
  }
}

const HEADERS = { 'Content-Type': OPEN_METRICS_TYPE, 'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff' }

function unauthorized(): Response {
  return problemResponse({
    status: 401,
    title: 'Unauthorized',
    detail: 'This needs METRICS_TOKEN, as Authorization: Bearer.',
    headers: { 'WWW-Authenticate': 'Bearer realm="sluice-metrics"' },
  })
}

function unavailable({ message }: StoreError): Response {
  return problemResponse({
    type: TEMPORARY_REDUCED_CAPACITY,
    status: 503,
    title: 'Service Unavailable',
    detail: `The store gave no answer: ${message}.`,
    headers: retryAfter(1_000),
  })
}
