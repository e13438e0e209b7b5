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
