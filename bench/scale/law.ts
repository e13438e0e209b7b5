/** What was admitted at some moment between these two, in ms. */
export interface Span {
  readonly earliestMs: number
  readonly latestMs: number
}

/**
 * The most that certainly lies in one window, wherever it begins: as `mostInAWindow` of bench/accuracy, for very many
 * admissions, of each of which is known when it was to within less than a window.
 */
export function fullestWindow(spans: readonly Span[], windowMs: number): number {
  const earliest = Float64Array.from(spans, (span) => span.earliestMs).sort()
  const latest = Float64Array.from(spans, (span) => span.latestMs).sort()
  let [most, ended] = [0, 0]
  for (let begun = 0; begun < earliest.length; begun++) {
    const endMs = (earliest[begun] as number) + windowMs
    while (ended < latest.length && (latest[ended] as number) < endMs) ended++
    // All that began before this one has ended within the window: it took less than that.
    most = Math.max(most, ended - begun)
  }
  return most
}
