import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../../model/charge.ts'
import { type Store, StoreError } from '../../model/store.ts'
import type { CallContext } from '../../runtime/call-context.ts'
import { Lru } from '../../runtime/lru.ts'
import { mapList } from '../../runtime/map-list.ts'
import { LeaseAccount } from './lease-account.ts'
import { decorate, type StageWatch } from './stage.ts'
import { formatStatusName, type StatusCache } from './status-cache.ts'

/** Permits of further callers expire unused. */
const MAX_ACCOUNTS = 10_000
/** Windows are in effect longer by a lease, so it lasts no larger share of the shortest one. */
const MAX_TERM_SHARE = 0.3
/** A longer lease would lose more with its isolate. Slow callers use a dozen permits within this time. */
const MAX_TERM_MS = 12_000
/** The last part of a lease is not used, because clocks of isolates run unevenly. */
const MARGIN_SHARE = 0.05
/** A busy caller takes what it needs for this time: few calls, and little expires when a burst ends. */
const HORIZON_MS = 100
/** It also takes what it needs for so many round trips, and takes more when no more than that is left. */
const ROUND_TRIPS = 2
/** Others take so many permits that a call is worth it, if they last no longer than a lease may. */
const MIN_PERMITS = 32
/** A lease takes at most this share of the remaining units, and no more requests wait: near a limit, each is decided alone. */
const LEFT_SHARE = 1 / 32
/** The unused and expired permits of all isolates are at most this share of the remaining units: others need those. */
const UNUSED_SHARE = 0.18
/** No more permits are unused for each that was used, so that a burst that stops counts little more than it was. */
const UNUSED_PER_USED = 0.65
/** All isolates together aim at so many calls a second for an identity. They are uneven, and an object serves 1,000. */
const MAX_CALLS_PER_SECOND = 150

/** A request, with the account of its caller. */
interface LeasingCaller {
  readonly request: DecisionRequest
  readonly account: LeaseAccount
  readonly maxLeaseMs: number
  readonly nowMs: number
  readonly context: CallContext
}

/** The most permits to take at once; `auto` takes as many as a caller is about to need. */
export type LeaseSize = number | 'auto'

export interface LeaseParts {
  /** Fed by the stage below. */
  readonly statuses: StatusCache
  readonly now: () => number
  /** Deadline of a call. */
  readonly timeoutMs: number
  readonly watch?: StageWatch | undefined
}

/** Workers with a compatibility date before 2024-10-14 end requests that await what another resolves: they hang. */
const CAN_AWAIT_OTHERS =
  !('WebSocketPair' in globalThis) ||
  (globalThis as { Cloudflare?: { compatibilityFlags?: Readonly<Record<string, boolean>> } }).Cloudflare
    ?.compatibilityFlags?.handle_cross_request_promise_resolution === true

/**
 * Takes what a caller is about to need in one call, and lets its next requests through without a call, as long as that
 * is a small share of what is left. Either the store counts a leased permit as if it were used when the lease ends, or
 * the lease ends with the windows that it is charged to: so no true window ever holds more than its limit. Permits not
 * used by then expire, and count all the same.
 *
 * Requests that find no permit while a call is on its way wait for it, and the next call asks for all of them.
 */
export function withLeases(size: LeaseSize): (store: Store, parts: LeaseParts) => Store {
  return (store, parts) => createLeasing(store, size, parts)
}

function createLeasing(store: Store, size: LeaseSize, { statuses, now, timeoutMs, watch }: LeaseParts): Store {
  const maxPermits = size === 'auto' ? Number.POSITIVE_INFINITY : size
  let accounts = new Lru<LeaseAccount>(MAX_ACCOUNTS)
  let roundTripMs = 0
  /** The latest call has failed: until one grants something, none is waited for, so that a breaker sees each. */
  let isFailing = false
  let latestMs = 0
  /** Grows when all accounts are dropped. */
  let generation = 0

  /** @throws {StoreError} it is then unknown if a lease was charged */
  const decide: Store['decide'] = (request, context) => {
    if (request.action === 'peek') return store.decide(request, context)
    if (!context || !isLeasable(request)) return ask(request, context)
    const nowMs = readClock()
    const name = formatAccountName(request)
    let account = accounts.get(name)
    if (!account) {
      account = new LeaseAccount(generation)
      accounts.set(name, account)
    }
    const { shortestMs, longestMs } = findWindows(request)
    const maxLeaseMs = Math.floor(Math.min(MAX_TERM_MS, shortestMs * MAX_TERM_SHARE))
    account.see(nowMs, maxLeaseMs, longestMs)
    return decideFor({ request, account, maxLeaseMs, nowMs, context })
  }

  /** Lets all permits expire, also those on their way. */
  function dropAccounts(): void {
    generation++
    accounts = new Lru(MAX_ACCOUNTS)
  }

  async function decideFor(caller: LeasingCaller): Promise<Decision> {
    const { account, nowMs, context } = caller
    const lease = account.take(nowMs)
    if (lease) {
      watch?.onAvoided('leases')
      const decision = admit(caller, lease.chargedAtMs)
      // Before permits run out, so that no request waits.
      const more = isShort(caller) ? countPermits(caller) : 0
      if (more > 1) context.waitUntil(take(caller, 0, more).catch(ignoreStoreError))
      return decision
    }
    const { held } = account
    if (held && nowMs < held.untilMs) return repeatOutcome(held, nowMs)
    const deciding = decideByCall(caller)
    // Others may wait for its call, even if its own client disconnects.
    if (CAN_AWAIT_OTHERS) context.waitUntil(deciding.catch(() => {}))
    return deciding
  }

  async function decideByCall(caller: LeasingCaller): Promise<Decision> {
    const shared = mayWait(caller) ? await caller.account.wait(timeoutMs) : undefined
    if (shared) {
      if (shared.granted === 0) return shared
      watch?.onAvoided('leases')
      return admit({ ...caller, nowMs: now() }, shared.nowMs)
    }
    const calling = { ...caller, nowMs: readClock() }
    const decision = await take(calling, 1, countPermits(calling))
    return decision.granted > 1 ? admit({ ...caller, nowMs: now() }, decision.nowMs) : decision
  }

  /** Near a limit, waiting would let units lie unused; a crowded identity accepts that, to share calls. */
  function mayWait({ request, account }: LeasingCaller): boolean {
    if (!CAN_AWAIT_OTHERS || isFailing || !account.call) return false
    const { left, crowdPermits } = findRoom(request)
    return account.waiting.length < Math.floor(Math.max(LEFT_SHARE * left, crowdPermits))
  }

  /** Admits a request by a permit that is taken already. Permits that are not used remain. */
  function admit({ request, account, nowMs }: LeasingCaller, chargedAtMs: number): Decision {
    const left = account.countLeft(nowMs)
    const usage = mapList(request.charges, (charge) => {
      const { usage, sentAtMs } = statuses.ensure(charge)
      const elapsedMs = Math.max(0, nowMs - sentAtMs)
      return mapList(usage, ({ remaining, resetMs }) => {
        return { remaining: remaining + left * charge.cost, resetMs: Math.max(0, resetMs - elapsedMs), retryAfterMs: 0 }
      })
    })
    return { granted: 1, nowMs: chargedAtMs, usage }
  }

  function findAheadMs(): number {
    return ROUND_TRIPS * Math.max(1, roundTripMs)
  }

  function isShort({ account, nowMs }: LeasingCaller): boolean {
    const aheadMs = findAheadMs()
    const needed = Math.round(account.pace * aheadMs)
    return needed > 0 && account.countLeft(nowMs + aheadMs) + account.pending <= needed
  }

  /** Counts the permits to take for requests to come. */
  function countPermits({ request, account, maxLeaseMs, nowMs }: LeasingCaller): number {
    const { left, leftPerUsed, crowdPermits } = findRoom(request)
    const { pace, used, expired } = account
    const expected = pace * (findUsableMs(request, maxLeaseMs, nowMs) - roundTripMs)
    const soon = Math.max(pace * HORIZON_MS, MIN_PERMITS)
    const wanted = Math.min(
      soon + pace * findAheadMs(),
      expected,
      LEFT_SHARE * left,
      UNUSED_SHARE * leftPerUsed * (used + expired) - expired,
      UNUSED_PER_USED * used,
    )
    const total = Math.min(maxPermits - 1, Math.max(wanted, Math.min(expected, crowdPermits)))
    const permits = Math.floor(total - account.countLeft(nowMs) - account.pending)
    return permits >= Math.min(2, maxPermits - 1) ? permits : 0
  }

  /** The time in which permits, and those taken before them, are used almost certainly. */
  function findLeaseMs({ account, maxLeaseMs, nowMs }: LeasingCaller, permits: number): number {
    const total = account.countLeft(nowMs) + account.pending + permits
    const lastsMs = (total + Math.sqrt(total)) / account.pace + findAheadMs()
    return Math.ceil(Math.min(maxLeaseMs, lastsMs / (1 - MARGIN_SHARE)))
  }

  /** How much the limits of a request leave, in permits. */
  function findRoom({ charges }: DecisionRequest) {
    const max = Number.POSITIVE_INFINITY
    const room = { left: max, leftPerUsed: max, crowdPermits: 0 }
    for (const charge of charges) {
      const usage = statuses.get(charge)?.usage
      for (const [at, { limit: units, windowMs }] of charge.limits.entries()) {
        const limit = (charge.burst ?? units) / charge.cost
        const left = (usage?.[at]?.remaining ?? charge.burst ?? units) / charge.cost
        room.left = Math.min(room.left, left)
        room.leftPerUsed = Math.min(room.leftPerUsed, left / Math.max(1, limit - left))
        // A bucket does not show how fast it is emptied, and permits of several charges are those of the slowest.
        if (!usage || charges.length > 1 || ALGORITHMS[charge.algorithm].hasBurst) continue
        const callsPerSecond = ((limit - left) * 1_000) / windowMs
        room.crowdPermits = Math.max(room.crowdPermits, callsPerSecond / MAX_CALLS_PER_SECOND)
      }
    }
    return room
  }

  /** The time for which permits taken now may be used: no longer than the windows last that they are counted in. */
  function findUsableMs({ charges }: DecisionRequest, leaseMs: number, nowMs: number): number {
    let endMs = nowMs + leaseMs
    for (const charge of charges) {
      if (ALGORITHMS[charge.algorithm].lease !== 'windowed') continue
      const { usage = [], sentAtMs = nowMs } = statuses.get(charge) ?? {}
      for (const { resetMs } of usage) endMs = Math.min(endMs, sentAtMs + resetMs)
    }
    return endMs - nowMs - leaseMs * MARGIN_SHARE
  }

  /**
   * Takes permits for all requests that wait, and for `more` to come.
   * @param own 1 if the request that makes the call needs one, too
   */
  async function take(caller: LeasingCaller, own: 0 | 1, more: number): Promise<Decision> {
    const { request, account, nowMs } = caller
    const sentAtMs = now()
    const included = account.waiting.splice(0)
    const needed = own + included.length
    const permits = needed + more
    const leaseMs = more > 0 ? findLeaseMs(caller, more) : 0
    account.call = included
    account.pending += more
    account.pendingUntilMs = nowMs + timeoutMs
    if (account.held) account.held.untilMs = nowMs + findAheadMs()
    try {
      const several = { ...request, action: 'take-up-to', permits, leaseMs } as const
      const decision = await ask(permits > 1 ? several : request, caller.context)
      const { granted } = decision
      account.held = granted === 0 ? hold(caller, decision, sentAtMs) : undefined
      account.used += Math.min(needed, granted)
      watch?.onLeased(Math.max(0, granted - own))
      // A refusal is for all of them; else as many are admitted as there are permits, and the others wait for the next call.
      for (const each of included.splice(0, granted === 0 ? included.length : granted - own)) each.resolve(decision)
      account.waiting.unshift(...included)
      if (granted > needed && account.generation === generation) {
        // The store decided when the call was sent, or later.
        const expiresAtMs = sentAtMs + findUsableMs(request, leaseMs, sentAtMs)
        account.add({ permits: granted - needed, expiresAtMs, chargedAtMs: decision.nowMs })
      }
      return decision
    } catch (error) {
      isFailing = true
      account.held = error instanceof StoreError ? hold(caller, error, sentAtMs) : undefined
      for (const each of included) each.reject(error)
      throw error
    } finally {
      account.pending = Math.max(0, account.pending - more)
      if (account.call === included) account.call = undefined
      serveWaiting(account)
    }
  }

  /** Admits requests that wait by permits that are left, and has the first of the others make the next call. */
  function serveWaiting(account: LeaseAccount): void {
    while (account.waiting.length > 0 && account.generation === generation) {
      const lease = account.take(now())
      if (!lease) break
      account.waiting.shift()?.resolve({ granted: 1, nowMs: lease.chargedAtMs, usage: [] })
    }
    if (isFailing) for (const each of account.waiting.splice(0)) each.resolve(undefined)
    else if (!account.call) account.waiting.shift()?.resolve(undefined)
  }

  /** Keeps an outcome of a crowded identity until its isolate would make another call, if all made the same number. */
  function hold({ request, account, maxLeaseMs }: LeasingCaller, outcome: Decision | StoreError, sentAtMs: number) {
    const { crowdPermits } = findRoom(request)
    if (crowdPermits < 1) return undefined
    return { outcome, sentAtMs, untilMs: now() + Math.min(maxLeaseMs / 2, crowdPermits / account.pace) }
  }

  async function ask(request: DecisionRequest, context: CallContext | undefined): Promise<Decision> {
    const sentAtMs = readClock()
    const decision = await store.decide(request, context)
    const elapsedMs = readClock() - sentAtMs
    // A refusal may come from the cache.
    if (decision.granted > 0) {
      isFailing = false
      // A longer round trip counts at once, and shorter ones by and by.
      roundTripMs = Math.max(elapsedMs, (7 * roundTripMs + elapsedMs) / 8)
    }
    return decision
  }

  /** When the clock has stepped back, it is unknown when leases end: all expire, also those on their way. */
  function readClock(): number {
    const nowMs = now()
    if (nowMs < latestMs) dropAccounts()
    latestMs = nowMs
    return nowMs
  }

  return decorate(store, {
    decide,
    async delete(keys) {
      await store.delete(keys)
      dropAccounts()
    },
  })
}

/** @throws {StoreError} if that was the outcome */
function repeatOutcome({ outcome, sentAtMs, untilMs }: NonNullable<LeaseAccount['held']>, nowMs: number): Decision {
  if (outcome instanceof StoreError) throw outcome
  const elapsedMs = Math.max(0, nowMs - sentAtMs)
  const age = ({ resetMs, retryAfterMs, ...limit }: LimitState): LimitState => ({
    ...limit,
    resetMs: Math.max(0, resetMs - elapsedMs),
    retryAfterMs: retryAfterMs === 0 ? 0 : Math.max(1, retryAfterMs - elapsedMs, untilMs - nowMs),
  })
  return { ...outcome, nowMs: outcome.nowMs + elapsedMs, usage: outcome.usage.map((limits) => limits.map(age)) }
}

/**
 * Other permits are taken one by one: a slot is held by one request, a policy in shadow mode counts each request,
 * settling calls the store in any case, and no caller may use permits during a penalty.
 */
function isLeasable({ action, permits, charges }: DecisionRequest): boolean {
  const canLease = ({ algorithm, mode, reserved, penalty, needsSettlement, counts = 'requests' }: StoreCharge) => {
    const isPlain = mode === 'enforce' && reserved === 0 && !penalty && !needsSettlement && counts === 'requests'
    return isPlain && ALGORITHMS[algorithm].lease !== undefined
  }
  return action === 'take' && permits === 1 && charges.every(canLease)
}

/** @returns a name that is equal for all requests with the same charges */
function formatAccountName({ charges }: DecisionRequest): string {
  const formatCharge = (charge: StoreCharge) => formatStatusName(charge) + (charge.cost === 1 ? '' : ` ${charge.cost}`)
  // Most have only one charge, whose name need not be concatenated and hashed again.
  return charges.length === 1 ? formatCharge(charges[0] as StoreCharge) : charges.map(formatCharge).join(' ')
}

/** Finds the shortest window, or the time in which a small bucket is filled, and the longest. */
function findWindows({ charges }: DecisionRequest) {
  let [shortestMs, longestMs] = [Number.POSITIVE_INFINITY, 0]
  for (const { limits, burst } of charges) {
    for (const { limit, windowMs } of limits) {
      shortestMs = Math.min(shortestMs, windowMs, ((burst ?? limit) * windowMs) / limit)
      longestMs = Math.max(longestMs, windowMs)
    }
  }
  return { shortestMs, longestMs }
}

/** The next request that finds no permits makes its own call, and reports its failure. */
function ignoreStoreError(error: unknown): void {
  if (!(error instanceof StoreError)) throw error
}
