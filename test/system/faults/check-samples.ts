/** What each answer, and all of them together, must be like: pure functions of the samples. */
import { LIMIT, LOCAL_LIMIT, MARKS, WINDOW_S } from './callers.ts'
import type { Length } from './fault.ts'
import type { Sample } from './traffic.ts'

/** Time that a decision may take beyond its deadline, ms. */
const SLACK_MS = 1_000
/** Time of a decision without a call, ms. */
const QUICK_MS = 100

/** Statuses, marks and refusals that may occur at all, whatever is broken. */
export function checkAnswers(samples: readonly Sample[]): string[] {
  return summarize(
    samples.flatMap(({ status, path, degraded, isGreedy, text }) => {
      const what = `${status} at /${path}, Sluice-Degraded: ${degraded ?? 'none'}`
      if (degraded !== undefined && degraded !== MARKS[path]) return [`${what}: another mark than its policy's`]
      switch (status) {
        case 200:
          return degraded === 'closed' ? [`${what}: admitted`] : []
        case 429:
          if (degraded === 'open') return [`${what}: refused by a policy that is open`]
          return isGreedy ? [] : [`${what} for a caller within its limit`]
        case 503:
          return degraded === 'closed' ? [] : [`${what}: no policy orders it`]
        default:
          return [`${what}: ${text.slice(0, 100)}`]
      }
    }),
  )
}

/** Number of requests without an answer, or with a 5xx that no policy orders. */
export function countUndueErrors(samples: readonly Sample[]): number {
  return samples.filter(({ status, degraded }) => status === 0 || (status >= 500 && degraded !== 'closed')).length
}

/** Asserts that requests which were decided within this time were decided without the store, or with it. */
export function checkMarks(
  samples: readonly Sample[],
  { fromMs, toMs }: { fromMs: number; toMs: number },
  expected: 'alone' | 'shared',
): string[] {
  const decided = samples.filter(({ startMs, decidedMs }) => startMs >= fromMs && decidedMs <= toMs)
  if (decided.length === 0) return ['no request was decided in that time']
  return summarize(
    decided.flatMap(({ status, path, degraded }) => {
      // What was refused may have been known from before.
      if (expected === 'alone' && degraded === undefined && status === 200) return [`admitted at /${path}, no mark`]
      if (expected === 'shared' && degraded !== undefined) return [`${degraded} while the store served`]
      return []
    }),
  )
}

/** Asserts that nobody waits for longer than the deadline of the store. */
export function checkDeadline(samples: readonly Sample[], { storeTimeoutMs }: Length): string[] {
  const slow = samples.filter(({ startMs, decidedMs }) => decidedMs - startMs > storeTimeoutMs + SLACK_MS)
  return summarize(slow.map(() => `a decision took more than ${storeTimeoutMs} + ${SLACK_MS} ms`))
}

/** Asserts that while the circuit is open, requests do not wait: half of them are quick, at each point. */
export function checkQuick(samples: readonly Sample[], { fromMs, toMs }: { fromMs: number; toMs: number }): string[] {
  const points = Map.groupBy(
    samples.filter(({ startMs, decidedMs }) => startMs >= fromMs && decidedMs <= toMs),
    ({ point }) => point,
  )
  return [...points].flatMap(([point, own]) => {
    const medianMs = findMedian(own.map(({ startMs, decidedMs }) => decidedMs - startMs))
    return medianMs > QUICK_MS ? [`point ${point}: open, but half of the decisions took ${medianMs.toFixed()} ms`] : []
  })
}

/**
 * Asserts that no caller was certainly admitted beyond what it has: LIMIT by the store, and LOCAL_LIMIT by each isolate.
 * @param losses times that the store has lost its state
 */
export function checkAdmissions(samples: readonly Sample[], { points }: Length, losses: number): string[] {
  // `held` limits what is open at once, and `open` nothing.
  const counted = samples.filter(
    ({ status, path, degraded }) => status === 200 && path !== 'held' && degraded !== 'open',
  )
  const shared = LIMIT * (1 + losses)
  return [...Map.groupBy(counted, ({ caller }) => caller)].flatMap(([, own]) => {
    const alone = own.filter(({ degraded }) => degraded !== undefined)
    const byPoint = Map.groupBy(alone, ({ point }) => point)
    return [
      ...listExcess(
        own.filter(({ degraded }) => degraded === undefined),
        shared,
        'by the store',
      ),
      ...[...byPoint].flatMap(([point, those]) => listExcess(those, LOCAL_LIMIT, `by point ${point} alone`)),
      ...listExcess(own, shared + LOCAL_LIMIT * points, 'in all'),
    ]
  })

  function listExcess(admitted: readonly Sample[], allowed: number, by: string): string[] {
    return admitted.length > allowed ? [`${admitted.length} of ${allowed} admitted ${by} within ${WINDOW_S} s`] : []
  }
}

/** Each line once, with the number of times that it came. */
export function summarize(lines: readonly string[]): string[] {
  return [...Map.groupBy(lines, (line) => line)].map(([line, { length }]) =>
    length > 1 ? `${length} × ${line}` : line,
  )
}

export function findMedian(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
}
