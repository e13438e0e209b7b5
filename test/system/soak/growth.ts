/** What is held, and whether it grows with the requests that were served: a slow machine serves fewer in the same time. */
import type { Verdict } from '../kit/scenario.ts'

export interface Sample {
  /** Served until then. */
  readonly requests: number
  readonly held: Readonly<Record<string, number>>
}

/** What collections of garbage leave behind varies. */
const MAX_GROWTH = 0.15
const MAX_MORE = 10
/** Until so many, a process still becomes as large as it is going to be. */
const MIN_REQUESTS = 30_000
const MIN_SAMPLES = 3

/**
 * The least that was held in a rest while the last third of the requests was served is no more than while the third
 * before was, and some. What leaks is never given back.
 */
export function listGrowths(samples: readonly Sample[], minRequests = MIN_REQUESTS): Verdict {
  const all = samples.at(-1)?.requests ?? 0
  const within = (from: number, to: number) =>
    samples.filter(({ requests }) => requests > (from * all) / 3 && requests <= (to * all) / 3)
  const [before, after] = [within(1, 2), within(2, 3)]
  if (all < minRequests || Math.min(before.length, after.length) < MIN_SAMPLES) {
    const seen = `${all} requests, ${before.length} and ${after.length} samples`
    return { wrong: [], missing: [`growth: ${seen}, of ${minRequests} and ${MIN_SAMPLES}`] }
  }
  const wrong = Object.keys(samples[0]?.held ?? {}).flatMap((name) => {
    const findLeast = (part: readonly Sample[]) => Math.min(...part.map(({ held }) => held[name] as number))
    const [was, is] = [findLeast(before), findLeast(after)]
    if (is <= was * (1 + MAX_GROWTH) + MAX_MORE) return []
    return [`${name}: ${was.toFixed(0)} in the second third of the requests, ${is.toFixed(0)} in the last`]
  })
  return { wrong, missing: [] }
}
