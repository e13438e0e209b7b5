import type { Observed, Observer } from '../http/observer.ts'
import type { Log } from '../runtime/log.ts'
import { EVERYWHERE } from './count-names.ts'
import { countryOf } from './country.ts'
import { outcomeOf, refusingTiers } from './outcome-of.ts'
import { refusedCallers } from './refused-callers.ts'

/** What is used of a binding of Workers Analytics Engine. Writing returns at once, and nothing waits for it. */
export interface AnalyticsDataset {
  writeDataPoint(point: DataPoint): void
}

interface DataPoint {
  readonly indexes: readonly string[]
  readonly blobs: readonly (string | null)[]
  readonly doubles: readonly number[]
}

/** Longer ones would not fit into the 16 KB that all blobs of a data point may have together. */
const MAX_BLOB_CHARACTERS = 500
/** Of UTF-8, which an index may have. */
const MAX_INDEX_BYTES = 96

/**
 * Writes a data point for each request to Workers Analytics Engine. Its limits (25 points or more an invocation, 20 blobs of 16
 * KB together, 20 doubles, one index of 96 bytes) leave room for that.
 * https://developers.cloudflare.com/analytics/analytics-engine/limits/
 */
export class AnalyticsWriter implements Observer {
  readonly #dataset: AnalyticsDataset
  readonly #log: Log

  constructor(dataset: AnalyticsDataset, log: Log) {
    this.#dataset = dataset
    this.#log = log
  }

  decided(observed: Observed): void {
    if (observed.verdict.kind !== 'admitted') this.#write(observed, 0)
  }

  answered(observed: Observed, status: number): void {
    this.#write(observed, status)
  }

  undecided(outcome: 'bad_request' | 'failed'): void {
    this.#send({ indexes: [outcome], blobs: [outcome], doubles: [1, 0, 0] })
  }

  #write(observed: Observed, status: number): void {
    const { verdict, trace, request } = observed
    const [match] = trace.matches
    const [caller] = refusedCallers(observed)
    const [tier] = refusingTiers(verdict)
    const blobs = [
      outcomeOf(verdict),
      caller?.policy ?? match?.policy.name,
      match && (match.route ?? EVERYWHERE),
      tier?.name,
      verdict.degraded,
      countryOf(request),
      caller?.digest,
    ].map((blob) => blob?.slice(0, MAX_BLOB_CHARACTERS) ?? null)
    const retryAfterMs = 'retryAfterMs' in verdict ? verdict.retryAfterMs : 0
    // Sampled by this: callers who are refused are kept apart from each other, all else goes by its outcome.
    const index = (caller?.digest ?? outcomeOf(verdict)).slice(0, MAX_INDEX_BYTES)
    this.#send({ indexes: [index], blobs, doubles: [1, status, retryAfterMs] })
  }

  #send(point: DataPoint): void {
    try {
      this.#dataset.writeDataPoint(point)
    } catch (error) {
      // No request may fail because it could not be counted.
      this.#log('error', { event: 'analytics_unwritten', error: (error as Error).name })
    }
  }
}
