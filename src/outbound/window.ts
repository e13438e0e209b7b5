/** The lengths of windows and trips, as a client sees them. */

const WINDOWS_S = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 86_400]
/** Resets and dates are whole seconds, and calls travel. */
export const MAX_ROUNDING_MS = 2_900

/** A call is counted this soon after it was sent, as a rule. */
export const MAX_TRIP_MS = 550
/** A window is taken for longer by no more than this, however different the trips are. */
const MAX_MARGIN_SHARE = 0.04

/** @param roundingMs by which it may be too long @returns the shortest of the usual windows that it can be */
export function toWindow(seenMs: number, roundingMs = MAX_ROUNDING_MS): number {
  const leastMs = seenMs - Math.min(MAX_ROUNDING_MS, roundingMs)
  return (WINDOWS_S.find((windowS) => windowS * 1_000 >= leastMs) ?? seenMs / 1_000) * 1_000
}

/** @param spreadMs by which trips differ @returns how much longer a window must be taken for */
export function findMargin(windowMs: number, spreadMs: number): number {
  return Math.min(spreadMs, windowMs * MAX_MARGIN_SHARE)
}
