/** The law of a sliding window, checked the plain way: nothing here is shared with the limiter. */

export interface Limit {
  readonly limit: number
  readonly windowMs: number
}

/** An admission at this moment or, if there is a latest one, at some moment between the two. */
export interface Admission {
  readonly ms: number
  readonly latestMs?: number
  readonly cost: number
}

export interface WindowCheck {
  /** Admissions, each of which begins a window. */
  readonly windows: number
  /** Windows that certainly held more than their limit. */
  readonly over: number
  /** Units that the fullest window certainly held, as a share of the limit. */
  readonly fullest: number
}

/**
 * Looks at each window that begins with an admission: no window, wherever it begins, can hold more than the fullest of
 * these. What may or may not lie in a window is not counted, so each finding is certain.
 */
export function checkWindows({ limit, windowMs }: Limit, admissions: readonly Admission[]): WindowCheck {
  const findLatest = ({ ms, latestMs = ms }: Admission) => latestMs
  // No window holds the others for certain.
  const certain = admissions.filter((admission) => findLatest(admission) < admission.ms + windowMs)
  const byLatest = certain.toSorted((a, b) => findLatest(a) - findLatest(b))
  let [over, most, used, ended] = [0, 0, 0, 0]
  for (const { ms, cost } of certain.toSorted((a, b) => a.ms - b.ms)) {
    for (let next = byLatest[ended]; next; next = byLatest[++ended]) {
      // Half-open: an admission exactly one window later is in the next.
      if (findLatest(next) >= ms + windowMs) break
      used += next.cost
    }
    if (used > limit) over++
    most = Math.max(most, used)
    used -= cost
  }
  return { windows: admissions.length, over, fullest: most / limit }
}

/** Asserts that no window of this length holds more than its limit. */
export function expectNoWindowOver(limit: number, windowMs: number, admissions: readonly Admission[]): void {
  const { over, fullest } = checkWindows({ limit, windowMs }, admissions)
  if (over > 0) throw new Error(`${over} windows of ${windowMs} ms hold up to ${fullest} times their limit of ${limit}`)
}

/** Asserts that no span of time holds more than a bucket's burst and what is refilled in it. */
export function expectNoSpanOver(burst: number, unitsPerMs: number, admissions: readonly Admission[]): void {
  const [{ ms: startMs } = { ms: 0 }] = admissions
  // Units above those refilled since the start: the most that it rises by is the most that any span holds.
  let [spent, min] = [0, Number.POSITIVE_INFINITY]
  for (const { ms, cost } of admissions) {
    min = Math.min(min, spent - unitsPerMs * (ms - startMs))
    spent += cost
    const held = spent - unitsPerMs * (ms - startMs) - min
    if (held > burst + 1e-6) throw new Error(`a span holds ${held} units above what was refilled in it, of ${burst}`)
  }
}
