/** The laws of a sliding window, checked the plain way: nothing here is shared with the limiter. */

export interface Tier {
  readonly limit: number
  readonly windowMs: number
}

/** What was admitted, at some moment from `earliestMs` to `latestMs`; by Redis's own record, these are one. */
export interface Admission {
  readonly earliestMs: number
  readonly latestMs: number
  readonly cost: number
}

export interface WindowCheck {
  /** Windows looked at. */
  readonly windows: number
  /** Those that certainly held more than their limit. */
  readonly over: number
  /** The most that one certainly held, as a share of the limit. */
  readonly fullest: number
}

/**
 * Looks at each window that begins with an admission: no window, wherever it begins, can hold more than the fullest of
 * these. What may or may not lie in a window is not counted, so each finding is certain.
 */
export function checkWindows({ limit, windowMs }: Tier, admissions: readonly Admission[]): WindowCheck {
  const inOrder = admissions.toSorted((a, b) => a.earliestMs - b.earliestMs)
  let over = 0
  let most = 0
  for (const [index, { earliestMs }] of inOrder.entries()) {
    // Half-open: an admission exactly one window later is in the next.
    const endMs = earliestMs + windowMs
    let used = 0
    for (let i = index; i < inOrder.length; i++) {
      const admission = inOrder[i] as Admission
      if (admission.earliestMs >= endMs) break
      if (admission.latestMs < endMs) used += admission.cost
    }
    if (used > limit) over++
    most = Math.max(most, used)
  }
  return { windows: inOrder.length, over, fullest: most / limit }
}
