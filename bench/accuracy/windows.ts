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
    for (let at = index; at < byEarliest.length; at++) {
      const later = byEarliest[at] as Admission
      if (later.earliestMs >= earliestMs + windowMs) break
      if (later.latestMs < earliestMs + windowMs) count++
    }
    most = Math.max(most, count)
  }
  return most
}

/** How many of these requests an exact limiter admits: each for which there is room in all windows that it ends. */
export function idealAdmissions(
  sentMs: readonly number[],
  tiers: readonly { readonly limit: number; readonly windowMs: number }[],
): number {
  const admitted: number[] = []
  for (const ms of sentMs.toSorted((a, b) => a - b)) {
    const hasRoom = tiers.every(({ limit, windowMs }) => {
      // The one that must have left the window for this one to fit.
      const before = admitted[admitted.length - limit]
      return before === undefined || before <= ms - windowMs
    })
    if (hasRoom) admitted.push(ms)
  }
  return admitted.length
}
