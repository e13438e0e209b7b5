/** An admitted request: it was admitted at some moment between these two, in ms of one clock. */
export interface Admission {
  readonly earliestMs: number
  readonly latestMs: number
}

/**
 * The most admissions that certainly lie in one window, (end - windowMs, end]: it counts only those between whose
 * earliest and latest moment less than a window passes. No late measurement can make a false violation.
 */
export function mostInAWindow(admissions: readonly Admission[], windowMs: number): number {
  const byEarliest = admissions.toSorted((a, b) => a.earliestMs - b.earliestMs)
  let most = 0
  for (const [index, { earliestMs }] of byEarliest.entries()) {
    let count = 0
    for (const later of byEarliest.slice(index)) {
      if (later.earliestMs >= earliestMs + windowMs) break
      if (later.latestMs < earliestMs + windowMs) count++
    }
    most = Math.max(most, count)
  }
  return most
}

/** How many of these requests an exact limiter admits: each for which there is room in the window that it ends. */
export function idealAdmissions(sentMs: readonly number[], limit: number, windowMs: number): number {
  const admitted: number[] = []
  for (const ms of sentMs.toSorted((a, b) => a - b)) {
    // The one that must have left the window for this one to fit.
    const before = admitted[admitted.length - limit]
    if (before === undefined || before <= ms - windowMs) admitted.push(ms)
  }
  return admitted.length
}
