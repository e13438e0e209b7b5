import { type LRU, lru } from 'tiny-lru'
import type { DecisionRequest, Store, StoreDecision } from '../store/store.ts'
import { StoreError } from '../store/store.ts'
import type { WaitUntil } from '../wait-until.ts'
import { Account } from './account.ts'
import { type Terms, termsOf } from './terms.ts'

/** Callers whose permits are kept at most; those of others lapse. */
const MAX_ACCOUNTS = 10_000
/** After so long, a replenishment of which nothing was heard stands in nobody's way. */
const LOST_AFTER_MS = 2_000

/** A number of permits to take at once, or as many as a caller is about to need. */
export type LeaseSize = number | 'auto'

/**
 * Takes several permits of a busy caller in one call, and spends them without asking. The script counts a leased permit
 * as if it were spent when the lease ends, so no true window ever holds more than its limit whenever it is spent
 * before; permits not spent by then lapse, and count all the same.
 */
export class Leases {
  readonly #store: Pick<Store, 'decide'>
  readonly #now: () => number
  readonly #size: LeaseSize
  readonly #accounts: LRU<Account> = lru(MAX_ACCOUNTS)

  /** @param now milliseconds since the Unix epoch */
  constructor(store: Pick<Store, 'decide'>, now: () => number, size: LeaseSize) {
    this.#store = store
    this.#now = now
    this.#size = size
  }

  /** @throws {StoreError} whether a lease was charged is then unknown */
  async decide(request: DecisionRequest, waitUntil: WaitUntil): Promise<StoreDecision> {
    const terms = termsOf(request)
    if (!terms) return this.#store.decide(request, waitUntil)
    const nowMs = this.#now()
    const account = this.#accountOf(terms)
    account.see(nowMs)
    const wanted = Math.min(terms.most, this.#size === 'auto' ? account.expected(terms.termMs) : this.#size)
    const spent = account.spend(nowMs)
    const isPaused = nowMs < account.replenishedUntilMs
    if (spent) {
      const left = account.left(nowMs)
      if (!isPaused && wanted >= 2 && left <= wanted / 2) {
        // Before they have run out, so that nobody waits.
        waitUntil(this.#take(account, request, terms, wanted - left, waitUntil).catch(ignoreStoreError))
      }
      return spent
    }
    // Others wait for the same answer, which cannot be shared: each asks for itself alone.
    if (isPaused || wanted < 2) return this.#store.decide(request, waitUntil)
    const decision = await this.#take(account, request, terms, wanted, waitUntil)
    return account.spendOwn(decision)
  }

  #accountOf({ name }: Terms): Account {
    let account = this.#accounts.get(name)
    if (!account) {
      account = new Account()
      this.#accounts.set(name, account)
    }
    return account
  }

  async #take(
    account: Account,
    request: DecisionRequest,
    { termMs }: Terms,
    permits: number,
    waitUntil: WaitUntil,
  ): Promise<StoreDecision> {
    const sentAtMs = this.#now()
    account.replenishedUntilMs = sentAtMs + LOST_AFTER_MS
    try {
      const decision = await this.#store.decide({ ...request, mode: 'partial', permits, leaseMs: termMs }, waitUntil)
      if (decision.granted > 0) account.add(request, decision, sentAtMs, termMs)
      return decision
    } finally {
      account.replenishedUntilMs = 0
    }
  }
}

/** The next request that finds nothing left asks for itself, and says so if it fails. */
function ignoreStoreError(error: unknown): void {
  if (!(error instanceof StoreError)) throw error
}
