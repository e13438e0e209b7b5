/**
 * Takes what an identity is about to need in one call, and lets its next requests through without a call, as long as that
 * is a small share of what is left. Either the store counts a leased permit as if it were used when the lease ends, or the
 * lease ends with the windows that it is charged to: so no true window ever holds more than its limit. Permits not used by
 * then expire, and count all the same.
 *
 * `lease-size.ts` computes how many permits to take and for how long; `lease-account.ts` holds them, and knows which
 * requests share a call.
 */
import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import type { Decision, DecisionRequest, StoreCharge } from '../../model/charge.ts'
import { countsEveryRequest } from '../../model/limits.ts'
import { type Store, StoreError } from '../../model/store.ts'
import type { CallContext } from '../../runtime/call-context.ts'
import type { Clocks } from '../../runtime/clocks.ts'
import { Lru } from '../../runtime/lru.ts'
import { mapList } from '../../runtime/map-list.ts'
import { LeaseAccount, type RepeatedOutcome, repeatOutcome } from './lease-account.ts'
import {
  countMaxWaiting,
  countPermits,
  findAheadMs,
  findLeaseMs,
  findPauseMs,
  findRoom,
  findTerms,
  findUsableMs,
  isShort,
  type LeaseTerms,
} from './lease-size.ts'
import { decorate, type StageWatch } from './stage.ts'
import { formatStatusName, type StatusCache } from './status-cache.ts'

/** Permits of further callers expire unused. */
const MAX_ACCOUNTS = 10_000

/** A clock of whole milliseconds, read with one that has parts of them, seems to move by up to this. */
const MAX_ROUNDING_MS = 1

/** The most permits to take at once; `auto` takes as many as a caller is about to need. */
export type LeaseSize = number | 'auto'

export interface LeaseParts extends Pick<Clocks, 'now' | 'readSteadyMs'> {
  /** Fed by the stage below. */
  readonly statuses: StatusCache
  /** Deadline of a call. */
  readonly timeoutMs: number
  readonly watch?: StageWatch | undefined
}

/** A request, with the account of its caller. */
interface LeasingCaller {
  readonly request: DecisionRequest
  readonly account: LeaseAccount
  readonly terms: LeaseTerms
  readonly nowMs: number
  readonly context: CallContext
}

/** Workers with a compatibility date before 2024-10-14 end requests that await what another resolves: they hang. */
const CAN_AWAIT_OTHERS =
  !('WebSocketPair' in globalThis) ||
  (globalThis as { Cloudflare?: { compatibilityFlags?: Readonly<Record<string, boolean>> } }).Cloudflare
    ?.compatibilityFlags?.handle_cross_request_promise_resolution === true

export function withLeases(size: LeaseSize): (store: Store, parts: LeaseParts) => Store {
  return (store, parts) => {
    const leasing = new Leasing(store, size, parts)
    return decorate(store, {
      decide: (request, context) => leasing.decide(request, context),
      async delete(keys) {
        await store.delete(keys)
        leasing.dropAccounts()
      },
    })
  }
}

class Leasing {
  readonly #store: Store
  readonly #maxPermits: number
  readonly #parts: LeaseParts
  #accounts = new Lru<LeaseAccount>(MAX_ACCOUNTS)
  #roundTripMs = 0
  /** The latest call has failed: until one grants something, none is waited for, so that a breaker sees each. */
  #isFailing = false
  #latestMs = 0
  /** How far the clock was at most ahead of the steady one since it last stepped back. */
  #maxAheadMs = Number.NEGATIVE_INFINITY
  /** Grows when all accounts are dropped. */
  #generation = 0

  constructor(store: Store, size: LeaseSize, parts: LeaseParts) {
    this.#store = store
    this.#maxPermits = size === 'auto' ? Number.POSITIVE_INFINITY : size
    this.#parts = parts
  }

  /** @throws {StoreError} it is then unknown if a lease was charged */
  decide(request: DecisionRequest, context: CallContext | undefined): Promise<Decision> {
    const { action, permits, charges } = request
    if (action === 'peek') return this.#store.decide(request, context)
    const isLeased = action === 'take' && permits === 1 && charges.every(canLease)
    if (!context || !isLeased) return this.#ask(request, context)
    const nowMs = this.#readClock()
    const account = this.#findAccount(charges)
    const terms = findTerms(charges)
    account.see(nowMs, terms)
    return this.#decideFor({ request, account, terms, nowMs, context })
  }

  /** Lets all permits expire, also those on their way. */
  dropAccounts(): void {
    this.#generation++
    this.#accounts = new Lru(MAX_ACCOUNTS)
  }

  #findAccount(charges: readonly StoreCharge[]): LeaseAccount {
    const name = formatAccountName(charges)
    const known = this.#accounts.get(name)
    if (known) return known
    const account = new LeaseAccount(this.#generation)
    this.#accounts.set(name, account)
    return account
  }

  async #decideFor(caller: LeasingCaller): Promise<Decision> {
    const { account, nowMs, context } = caller
    const lease = account.take(nowMs)
    if (lease) {
      this.#parts.watch?.onAvoided('leases')
      const decision = this.#admit(caller, lease.chargedAtMs)
      this.#takeAhead(caller)
      return decision
    }
    const { repeated } = account
    if (repeated && nowMs < repeated.untilMs) return repeatOutcome(repeated, nowMs)
    const deciding = this.#decideByCall(caller)
    // Others may wait for its call, even if its own client disconnects.
    if (CAN_AWAIT_OTHERS) context.waitUntil(deciding.catch(() => {}))
    return deciding
  }

  async #decideByCall(caller: LeasingCaller): Promise<Decision> {
    const { timeoutMs, now, watch } = this.#parts
    const shared = this.#mayWait(caller) ? await caller.account.wait(timeoutMs) : undefined
    if (shared) {
      if (shared.granted === 0) return shared
      watch?.onAvoided('leases')
      return this.#admit({ ...caller, nowMs: now() }, shared.nowMs)
    }
    const calling = { ...caller, nowMs: this.#readClock() }
    const decision = await this.#take(calling, 1, this.#countPermits(calling))
    return decision.granted > 1 ? this.#admit({ ...caller, nowMs: now() }, decision.nowMs) : decision
  }

  #mayWait({ request, account }: LeasingCaller): boolean {
    if (!CAN_AWAIT_OTHERS || this.#isFailing) return false
    return account.canWait(countMaxWaiting(findRoom(request.charges, this.#parts.statuses)))
  }

  /** Admits a request by a permit that is taken already. Permits that are not used remain. */
  #admit({ request, account, nowMs }: LeasingCaller, chargedAtMs: number): Decision {
    const left = account.countLeft(nowMs)
    const usage = mapList(request.charges, (charge) => {
      const { usage, sentAtMs } = this.#parts.statuses.ensure(charge)
      const elapsedMs = Math.max(0, nowMs - sentAtMs)
      return mapList(usage, ({ remaining, resetMs }) => {
        return { remaining: remaining + left * charge.cost, resetMs: Math.max(0, resetMs - elapsedMs), retryAfterMs: 0 }
      })
    })
    return { granted: 1, nowMs: chargedAtMs, usage }
  }

  /** Takes more before permits run out, so that no request waits. */
  #takeAhead(caller: LeasingCaller): void {
    const { account, nowMs, context } = caller
    const aheadMs = findAheadMs(this.#roundTripMs)
    if (!isShort(account.pace, aheadMs, account.countLeft(nowMs + aheadMs) + account.pending)) return
    const more = this.#countPermits(caller)
    if (more > 1) context.waitUntil(this.#take(caller, 0, more).catch(ignoreStoreError))
  }

  #countPermits({ request: { charges }, account, terms, nowMs }: LeasingCaller): number {
    const { statuses } = this.#parts
    const { pace, used, expired } = account
    const use = { pace, used, expired, unused: account.countLeft(nowMs) + account.pending }
    const usableMs = findUsableMs(charges, statuses, terms.maxLeaseMs, nowMs)
    return countPermits(findRoom(charges, statuses), use, usableMs, this.#roundTripMs, this.#maxPermits)
  }

  /**
   * Takes permits for all requests that wait, and for `more` to come.
   * @param own 1 if the request that makes the call needs one, too
   */
  async #take(caller: LeasingCaller, own: 0 | 1, more: number): Promise<Decision> {
    const { statuses, now, timeoutMs, watch } = this.#parts
    const { request, account, terms, nowMs, context } = caller
    const sentAtMs = now()
    const total = account.countLeft(nowMs) + account.pending + more
    const leaseMs = more > 0 ? findLeaseMs(total, account.pace, this.#roundTripMs, terms) : 0
    const call = account.beginCall(more, nowMs + timeoutMs)
    const needed = own + call.waiters.length
    const permits = needed + more
    if (account.repeated) account.repeated.untilMs = nowMs + findAheadMs(this.#roundTripMs)
    try {
      const several = { ...request, action: 'take-up-to', permits, leaseMs } as const
      const decision = await this.#ask(permits > 1 ? several : request, context)
      const { granted } = decision
      account.repeated = granted === 0 ? this.#createRepeated(caller, decision, sentAtMs) : undefined
      account.used += Math.min(needed, granted)
      watch?.onLeased(Math.max(0, granted - own))
      account.share(call, decision, own)
      if (granted > needed && account.generation === this.#generation) {
        // The store decided when the call was sent, or later.
        const expiresAtMs = sentAtMs + findUsableMs(request.charges, statuses, leaseMs, sentAtMs)
        account.add({ permits: granted - needed, expiresAtMs, chargedAtMs: decision.nowMs })
      }
      return decision
    } catch (error) {
      this.#isFailing = true
      account.repeated = error instanceof StoreError ? this.#createRepeated(caller, error, sentAtMs) : undefined
      account.fail(call, error)
      throw error
    } finally {
      account.endCall(call)
      account.serveWaiting(account.generation === this.#generation, this.#isFailing, now)
    }
  }

  /** Refusals and failures of a crowded identity are repeated for a pause, or its isolates would call too often. */
  #createRepeated({ request, account, terms }: LeasingCaller, outcome: RepeatedOutcome['outcome'], sentAtMs: number) {
    const { statuses, now } = this.#parts
    const pauseMs = findPauseMs(findRoom(request.charges, statuses), account.pace, terms)
    return pauseMs > 0 ? { outcome, sentAtMs, untilMs: now() + pauseMs } : undefined
  }

  async #ask(request: DecisionRequest, context: CallContext | undefined): Promise<Decision> {
    const sentAtMs = this.#readClock()
    const decision = await this.#store.decide(request, context)
    const elapsedMs = this.#readClock() - sentAtMs
    // A refusal may come from the cache.
    if (decision.granted > 0) {
      this.#isFailing = false
      // A longer round trip counts at once, and shorter ones by and by.
      this.#roundTripMs = Math.max(elapsedMs, (7 * this.#roundTripMs + elapsedMs) / 8)
    }
    return decision
  }

  /** When the clock has stepped back, it is unknown when leases end: all expire, also those on their way. */
  #readClock(): number {
    const { now, readSteadyMs } = this.#parts
    const nowMs = now()
    const aheadMs = readSteadyMs ? nowMs - readSteadyMs() : Number.NEGATIVE_INFINITY
    if (nowMs < this.#latestMs || aheadMs < this.#maxAheadMs - MAX_ROUNDING_MS) {
      this.dropAccounts()
      this.#maxAheadMs = aheadMs
    }
    this.#maxAheadMs = Math.max(this.#maxAheadMs, aheadMs)
    this.#latestMs = nowMs
    return nowMs
  }
}

/**
 * Other permits are taken one by one: a slot is held by one request, a policy in shadow mode counts each request,
 * settling calls the store in any case, and no caller may use permits during a penalty.
 */
function canLease({ algorithm, mode, reserved, penalty, needsSettlement, counts }: StoreCharge): boolean {
  const isPlain = mode === 'enforce' && reserved === 0 && !penalty && !needsSettlement && countsEveryRequest(counts)
  return isPlain && ALGORITHMS[algorithm].lease !== undefined
}

/** @returns a name that is equal for all lists of the same charges at the same costs */
function formatAccountName(charges: readonly StoreCharge[]): string {
  // No name of a plan has a slash.
  const formatCharge = (charge: StoreCharge) => (charge.cost === 1 ? '' : `/${charge.cost} `) + formatStatusName(charge)
  // Most have only one charge, whose name need not be concatenated and hashed again.
  if (charges.length === 1) return formatCharge(charges[0] as StoreCharge)
  // A key in memory may hold an identity that looks like other keys: only lengths tell where each ends.
  return charges
    .map(formatCharge)
    .map((name) => `${name.length} ${name}`)
    .join(' ')
}

/** The next request that finds no permits makes its own call, and reports its failure. */
function ignoreStoreError(error: unknown): void {
  if (!(error instanceof StoreError)) throw error
}
