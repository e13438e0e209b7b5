/** Logs refusals, and writes requests to Analytics Engine. */
import type { Log } from '../../core/runtime/log.ts'
import type { Observed, Observer } from '../../http/response/exchange.ts'
import { type LabelReader, readCountry } from './label.ts'
import { EVERYWHERE } from './metrics.ts'
import { findRefusedCallers, findRefusingLimits, toOutcome } from './outcomes.ts'

export function joinObservers(observers: readonly Observer[]): Observer {
  return {
    onDecided(...about) {
      for (const observer of observers) observer.onDecided(...about)
    },
    onAnswered(...about) {
      for (const observer of observers) observer.onAnswered(...about)
    },
    onUndecided(...about) {
      for (const observer of observers) observer.onUndecided(...about)
    },
  }
}

export interface RefusalLogOptions {
  /** The share of refusals that is logged, above 0 and at most 1. */
  readonly share: number
  readonly readLabel?: LabelReader | undefined
  readonly log: Log
  /** From 0 to below 1. */
  readonly random: () => number
}

/** Logs a sample of the refusals, without anything that identifies a caller elsewhere. */
export function createRefusalLog({ share, readLabel, log, random }: RefusalLogOptions): Observer {
  function write(observed: Observed, label: string | undefined): void {
    const { verdict, trace, request } = observed
    const callers = findRefusedCallers(observed)
    const country = readCountry(request)
    log('info', {
      event: 'refused',
      outcome: verdict.outcome,
      policies: [...new Set(trace.matches.map(({ policy }) => policy.name))],
      routes: [...new Set(trace.matches.map(({ route }) => route ?? EVERYWHERE))],
      limits: findRefusingLimits(verdict).map(({ name }) => name),
      callers: Object.fromEntries(callers.map(({ policy, digest }) => [policy, digest])),
      ...('retryAfterMs' in verdict && { retryAfterMs: verdict.retryAfterMs }),
      ...(verdict.degraded !== undefined && { degraded: verdict.degraded }),
      ...(label !== undefined && { label }),
      ...(country !== undefined && { country }),
    })
  }

  return {
    onDecided(observed, context) {
      if (observed.verdict.outcome === 'admitted' || random() >= share) return
      const label = readLabel?.(observed.request, context)
      if (label instanceof Promise) context.waitUntil(label.then((text) => write(observed, text)))
      else write(observed, label)
    },
    onAnswered() {},
    onUndecided() {},
  }
}

/** All blobs of a data point may have 16 KB together. */
const MAX_BLOB_CHARACTERS = 500
/** An index may have as many bytes of UTF-8. */
const MAX_INDEX_BYTES = 96

/**
 * Writes a data point for each request to Workers Analytics Engine.
 * https://developers.cloudflare.com/analytics/analytics-engine/limits/
 */
export function createAnalyticsWriter(dataset: AnalyticsEngineDataset, log: Log): Observer {
  function write(observed: Observed, status: number): void {
    const { verdict, trace, request } = observed
    const [match] = trace.matches
    const [caller] = findRefusedCallers(observed)
    const [limit] = findRefusingLimits(verdict)
    const blobs = [
      toOutcome(verdict),
      caller?.policy ?? match?.policy.name,
      match && (match.route ?? EVERYWHERE),
      limit?.name,
      verdict.degraded,
      readCountry(request),
      caller?.digest,
    ].map((blob) => blob?.slice(0, MAX_BLOB_CHARACTERS) ?? null)
    const retryAfterMs = 'retryAfterMs' in verdict ? verdict.retryAfterMs : 0
    // The platform samples by index: refused callers are kept apart, all else goes by its outcome.
    const index = (caller?.digest ?? toOutcome(verdict)).slice(0, MAX_INDEX_BYTES)
    writePoint({ indexes: [index], blobs, doubles: [1, status, retryAfterMs] })
  }

  function writePoint(point: AnalyticsEngineDataPoint): void {
    try {
      dataset.writeDataPoint(point)
    } catch (error) {
      // No request may fail because it could not be counted.
      log('error', { event: 'analytics_write_failed', error: (error as Error).name })
    }
  }

  return {
    onDecided(observed) {
      if (observed.verdict.outcome !== 'admitted') write(observed, 0)
    },
    onAnswered: write,
    onUndecided: (outcome) => writePoint({ indexes: [outcome], blobs: [outcome], doubles: [1, 0, 0] }),
  }
}
