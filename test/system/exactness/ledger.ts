import { History } from '../../support/history.ts'
import type { Admission, Limit } from '../../support/windows.ts'
import type { Charge, Decision, Entry } from './redis-record.ts'
import { type Demand, judgeInOrder } from './refusals.ts'

interface Account {
  readonly history: History
  readonly admissions: Admission[]
  last: Entry | undefined
}

/** All of Redis's decisions, in order, and what is wrong with them one by one. */
export class Ledger {
  readonly decisions: Decision[] = []
  /** Refusals for which there was room. */
  undue = 0
  /** Refusals for which there was room at one end of the span in which Redis read its clock, and none at the other. */
  either = 0
  /** Entries, each of which charges at most one request. */
  entries = 0
  /** Entries of permits taken in advance. */
  leases = 0
  /** Refusals at a time when permits of a lease could still be spent elsewhere. */
  refusedDuringLeases = 0
  /** Whatever else is not as it must be, in words. */
  readonly faults: string[] = []
  readonly #accounts = new Map<string, Account>()
  readonly #findLimits: (key: string) => readonly Limit[]
  readonly #isLeased: boolean

  /** @param isLeased permits may be taken in advance, several at once, and are then entered at a time to come */
  constructor(findLimits: (key: string) => readonly Limit[], isLeased = false) {
    this.#findLimits = findLimits
    this.#isLeased = isLeased
  }

  add(decision: Decision): void {
    const { charges, entries, earliestMs, latestMs } = decision
    this.decisions.push(decision)
    if (entries.length > 0) {
      if (!this.#isLeased) this.#expectAll(charges, entries)
      for (const entry of entries) this.#enter(entry, decision)
      return
    }
    if (charges.some(({ key }) => (this.#account(key).last?.ms ?? 0) > Math.floor(latestMs) + 1)) {
      this.refusedDuringLeases++
    }
    const judgement = judgeInOrder(this.demands(charges), earliestMs, latestMs)
    if (judgement === 'undue') this.undue++
    if (judgement === 'either') this.either++
  }

  demands(charges: readonly Charge[]): Demand[] {
    return charges.map(({ key, cost }) => ({
      cost,
      limits: this.#findLimits(key),
      history: this.#account(key).history,
    }))
  }

  /** In the order in which they were first charged or refused. */
  get keys(): readonly string[] {
    return [...this.#accounts.keys()]
  }

  /** Units charged under a key that are dated at a moment or later. */
  charged(key: string, fromMs: number): number {
    return this.#account(key).history.used(fromMs - 1, Number.POSITIVE_INFINITY)
  }

  get grants(): number {
    return this.decisions.filter(({ entries }) => entries.length > 0).length
  }

  admissions(key: string): readonly Admission[] {
    return this.#account(key).admissions
  }

  /** All that was to be charged is, or nothing. */
  #expectAll(charges: readonly Charge[], entries: readonly Entry[]): void {
    const inWords = (charges: readonly Charge[]) => charges.map(({ key, cost }) => `${cost} of ${key}`).join(', ')
    if (inWords(charges) !== inWords(entries)) {
      this.faults.push(`a charge of ${inWords(charges)} became one of ${inWords(entries)}`)
    }
  }

  #enter(entry: Entry, { earliestMs, latestMs, charges }: Decision): void {
    const { key, ms, total, cost } = entry
    this.entries++
    const ownCost = charges.find((charge) => charge.key === key)?.cost ?? 0
    const account = this.#account(key)
    const { last } = account
    // A stream that no window sees any more may have expired.
    const longestMs = Math.max(...this.#findLimits(key).map(({ windowMs }) => windowMs))
    const isNew = !last || (total === cost && ms - last.ms > longestMs)
    if (!isNew && total !== last.total + cost) {
      this.faults.push(`${key}: a total of ${total} after one of ${last.total} and a cost of ${cost}`)
    }
    // Entries are dated by the end of their millisecond, those of leases ahead.
    const latestDateMs = Math.floor(latestMs) + 1
    if (ms > latestDateMs && cost > ownCost) this.leases++
    if (ms < earliestMs || (ms > latestDateMs && !this.#isLeased)) {
      this.faults.push(`${key}: an entry of ${ms} by a decision between ${earliestMs} and ${latestMs}`)
    }
    account.last = entry
    account.history.add(ms, cost, Math.min(ms, latestDateMs))
    account.admissions.push({ ms, cost })
  }

  #account(key: string): Account {
    let account = this.#accounts.get(key)
    if (!account) {
      account = { history: new History(), admissions: [], last: undefined }
      this.#accounts.set(key, account)
    }
    return account
  }
}
