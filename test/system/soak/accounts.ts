/**
 * What callers were answered, and whether a limit was kept: by the time of the machine, which is that of the stores. While
 * it is being corrected, a steady clock is another one.
 */
import { type Admission, checkWindows, type Limit } from '../../support/windows.ts'

/** `doubtful`: the store may have charged it, and may yet. */
export type Answered = 'admitted' | 'refused' | 'doubtful'

/** Of everything that is soaked. */
export const STORE_TIMEOUT_MS = 500

interface Span {
  readonly sentMs: number
  readonly doneMs: number
}

/** Commands that were held up with a frozen store run within this after their callers had given up. */
const LATE_MS = 10_000
/** Entries are dated by the end of their millisecond. */
const ROUNDING_MS = 2
/** Answers are kept for so many windows after what is late. */
const KEPT_WINDOWS = 3

/** The account of one caller who presses against one limit. */
export class Account {
  readonly counts = { admitted: 0, refused: 0, doubtful: 0 }
  readonly #limit: Limit
  readonly #spans: Record<Answered, Span[]> = { admitted: [], refused: [], doubtful: [] }
  readonly #undue = new Set<number>()
  #over = 0
  #forgottenMs = Number.NEGATIVE_INFINITY

  constructor(limit: Limit) {
    this.#limit = limit
  }

  add(answered: Answered, sentMs: number, doneMs: number): void {
    this.#note(answered, { sentMs, doneMs })
    // A call whose answer was late may have charged, and was made again, once.
    const late = Math.min(2, Math.floor((doneMs - sentMs) / (0.9 * STORE_TIMEOUT_MS)))
    for (let calls = answered === 'doubtful' ? 1 : 0; calls < late; calls++) this.#note('doubtful', { sentMs, doneMs })
  }

  #note(answered: Answered, span: Span): void {
    this.counts[answered]++
    this.#spans[answered].push(span)
  }

  /**
   * Judges what is kept, and forgets what no window to come will see.
   * @param isOver no answer is outstanding
   * @returns what is wrong, a line each
   */
  check(nowMs: number, isOver = false): string[] {
    const { limit, windowMs } = this.#limit
    const { admitted, refused, doubtful } = this.#spans
    const toAdmission = ({ sentMs, doneMs }: Span): Admission => ({ ms: sentMs, latestMs: doneMs, cost: 1 })
    this.#over = Math.max(this.#over, checkWindows(this.#limit, admitted.map(toAdmission)).over)
    const keptMs = nowMs - LATE_MS - KEPT_WINDOWS * windowMs
    for (const { sentMs, doneMs } of refused) {
      const sinceMs = sentMs - windowMs - ROUNDING_MS
      // Of what was before, some was forgotten; and what was admitted instead may still be on its way.
      if (sinceMs - LATE_MS < this.#forgottenMs || (!isOver && doneMs > nowMs - LATE_MS)) continue
      const counts = (one: Span, latestMs: number) => latestMs > sinceMs && one.sentMs <= doneMs
      const charged = admitted.filter((one) => counts(one, one.doneMs)).length
      const perhaps = doubtful.filter((one) => counts(one, one.doneMs + LATE_MS)).length
      if (charged + perhaps < limit) this.#undue.add(sentMs)
    }
    for (const spans of Object.values(this.#spans)) {
      const kept = spans.filter(({ doneMs }) => doneMs >= keptMs)
      if (kept.length < spans.length) this.#forgottenMs = keptMs
      spans.splice(0, spans.length, ...kept)
    }
    return [
      ...(this.#over > 0 ? [`${this.#over} windows above the limit`] : []),
      ...(this.#undue.size > 0 ? [`${this.#undue.size} refused with room for them`] : []),
    ]
  }
}

/** Accounts of everybody who presses, by the name of the part and the caller. */
export class Accounts {
  readonly #limit: Limit
  readonly #accounts = new Map<string, Account>()

  constructor(limit: Limit) {
    this.#limit = limit
  }

  of(name: string): Account {
    const account = this.#accounts.get(name) ?? new Account(this.#limit)
    this.#accounts.set(name, account)
    return account
  }

  check(nowMs: number, isOver = false): string[] {
    return [...this.#accounts].flatMap(([name, account]) =>
      account.check(nowMs, isOver).map((line) => `${name}: ${line}`),
    )
  }

  /** What everybody was answered. */
  get counts(): readonly (readonly [name: string, counts: Account['counts']])[] {
    return [...this.#accounts].map(([name, { counts }]) => [name, counts])
  }
}
