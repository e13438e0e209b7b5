/** The lengths of windows, as a client sees them. */

const WINDOWS_S = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 86_400]
/** Resets and dates are whole seconds, and calls travel. */
const MAX_ROUNDING_MS = 2_900

/** The clocks of two machines do not run alike, and trips are not equally long. */
const MARGIN_SHARE = 0.01
const MAX_MARGIN_MS = 50

/** @returns the shortest of the usual windows that a window of this length can be */
export function toWindow(seenMs: number): number {
  return (WINDOWS_S.find((windowS) => windowS * 1_000 >= seenMs - MAX_ROUNDING_MS) ?? seenMs / 1_000) * 1_000
}

/** @returns how much longer a window must be taken for */
export function findMargin(windowMs: number): number {
  return Math.min(MAX_MARGIN_MS, windowMs * MARGIN_SHARE)
}
