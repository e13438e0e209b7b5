import { ALGORITHMS } from '../algorithms/algorithm-table.ts'
import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../model/charge.ts'
import type { Store } from '../model/store.ts'
import { StoreError } from '../model/store.ts'
import { Lru } from '../runtime/lru.ts'
import { type AvoidedCalls, createAvoidedCalls, decorate, type Stage } from './stage.ts'
import { formatStatusName, StatusCache } from './status-cache.ts'

/** Refusals remembered at most. */
const MAX_ENTRIES = 10_000
/** A counter that was reset, or a limit that was raised, takes effect after this at the latest. */
const MAX_AGE_MS = 5_000

interface Refusal {
  readonly usage: readonly LimitState[]
  readonly nowMs: number
  /** Redis decided at some moment between these two. */
  readonly sentAtMs: number
  readonly receivedAtMs: number
  readonly untilMs: number
  /** That of the key's standing: any sign that units were spent since makes these times untrue. */
  readonly version: number
}

/**
 * Answers what is certain without asking: a caller that was told to wait is refused the same cost until then, unless
 * units were spent since. So a flood of refused requests costs no calls. A refusal is remembered for the rule that
 * refused and for the cost asked; a cheaper request, or another policy, is still asked for. Refusals that count towards
 * a block are not remembered: the store must hear of them, and once it blocks, that is remembered. A `peek` is always
 * answered by the store.
 * @param now milliseconds since the Unix epoch
 */
export function withRefusalCache(now: () => number, avoided = createAvoidedCalls()): Stage {
  return (store) => {
    const cache = new RefusalCache(store, now, avoided)
    return decorate(store, {
      decide: cache.decide,
      async settle(differences, chargedAtMs) {
        await store.settle(differences, chargedAtMs)
        cache.forget(differences.map(({ rule }) => rule.key))
      },
      async forget(keys) {
        await store.forget(keys)
        cache.forget(keys)
      },
    })
  }
}

class RefusalCache {
  readonly #store: Store
  readonly #now: () => number
  readonly #avoided: AvoidedCalls
  readonly #refusals = new Lru<Refusal>(MAX_ENTRIES)
  readonly #standings = new StatusCache()

  constructor(store: Store, now: () => number, avoided: AvoidedCalls) {
    this.#store = store
    this.#now = now
    this.#avoided = avoided
  }

  readonly decide: Store['decide'] = async (request, context) => {
    if (request.mode === 'peek') return this.#store.decide(request, context)
    const sentAtMs = this.#now()
    const known = this.#recall(request, sentAtMs)
    if (known) {
      this.#avoided.byRefusalCache++
      return known
    }
    const heardBefore = this.#standings.heard
    // Under its own name, so that what is forgotten meanwhile is forgotten under this name too.
    for (const rule of request.rules) if (rule.plan !== undefined) this.#standings.of(rule)
    try {
      const decision = await this.#store.decide(request, context)
      const areCertain = this.#standings.hear(request, decision, sentAtMs, heardBefore)
      if (decision.granted === 0 && !decision.isProvisional) this.#remember(request, decision, sentAtMs, areCertain)
      return decision
    } catch (error) {
      if (!(error instanceof StoreError) || error.mayHaveRun) this.#standings.doubt(request)
      throw error
    }
  }

  /** What was heard about these keys so far, or is on its way, no longer counts. */
  forget(keys: readonly string[]): void {
    this.#standings.forget(keys)
  }

  #recall(request: DecisionRequest, nowMs: number): Decision | undefined {
    if (request.mode === 'charge') return undefined
    const refusals = request.rules.map((rule) => this.#refusalOf(rule, countUnits(rule, request), nowMs))
    const first = refusals.find((refusal) => refusal !== undefined)
    if (!first) return undefined
    // Another rule may refuse for longer by now.
    const isComplete = request.rules.every(
      (rule, index) => refusals[index] || this.#fits(rule, countUnits(rule, request)),
    )
    if (!isComplete) return undefined
    const usage = refusals.map((refusal) => (refusal ? agedUsage(refusal, nowMs) : []))
    return { granted: 0, nowMs: first.nowMs + nowMs - first.sentAtMs, usage }
  }

  #refusalOf(rule: StoreCharge, units: number, nowMs: number): Refusal | undefined {
    const standing = canCache(rule) ? this.#standings.get(rule) : undefined
    // Most callers have none, and to look for it takes a name to be put together.
    if (!standing || standing.refusedAs !== standing.version) return undefined
    const refusal = this.#refusals.get(refusalName(rule, units))
    // A clock that stepped back says nothing about how much time has passed.
    if (!refusal || nowMs >= refusal.untilMs || nowMs < refusal.receivedAtMs) return undefined
    return refusal.version === standing.version ? refusal : undefined
  }

  /**
   * Whether a rule would not refuse, as far as is known. Nothing is known of rules that may give back at any moment.
   */
  #fits(rule: StoreCharge, units: number): boolean {
    const { algorithm, enforced, isSettled, block } = rule
    if (!enforced || (isSettled && !block) || ALGORITHMS[algorithm].holdsSlots) return true
    const standing = this.#standings.get(rule)
    return !standing || (!standing.isBlocked && standing.remaining >= units)
  }

  #remember(request: DecisionRequest, decision: Decision, sentAtMs: number, areCertain: readonly boolean[]): void {
    const { nowMs, usage } = decision
    request.rules.forEach((rule, index) => {
      const tiers = usage[index] ?? []
      // The tier that holds longest. Before it gives back anything, nothing of this can change for the better.
      const decisive = tiers.toSorted((a, b) => b.retryAfterMs - a.retryAfterMs)[0]
      const standing = this.#standings.get(rule)
      if (!decisive || !isCacheable(rule, decisive) || !areCertain[index] || !standing) return
      const { version } = standing
      standing.refusedAs = version
      // While it is blocked, nothing that it gives back is of use.
      const { blockedMs = decisive.resetMs } = decisive
      const untilMs = sentAtMs + Math.min(blockedMs, decisive.retryAfterMs, MAX_AGE_MS)
      const refusal = { usage: tiers, nowMs, sentAtMs, receivedAtMs: this.#now(), untilMs, version }
      this.#refusals.set(refusalName(rule, countUnits(rule, request)), refusal)
    })
  }
}

/** Whether a refusal by this rule may be remembered. */
function canCache(rule: StoreCharge): boolean {
  const { algorithm, enforced, counts, block } = rule
  if (!enforced || counts === 'identities' || ALGORITHMS[algorithm].holdsSlots) return false
  return block !== undefined || isOnlySpent(rule)
}

/** Whether the rule refuses again for as long as it said: as long as a block lasts, it does so whatever is given back. */
function isCacheable(rule: StoreCharge, { retryAfterMs, blockedMs }: LimitState): boolean {
  if (!canCache(rule) || retryAfterMs === 0) return false
  if (!rule.block) return true
  return blockedMs !== undefined && (blockedMs === retryAfterMs || isOnlySpent(rule))
}

/** Settled charges may be given back at any moment, and what is reserved may be used up by others. */
function isOnlySpent({ reserved, isSettled }: StoreCharge): boolean {
  return reserved === 0 && !isSettled
}

/** Units that must fit, those included that must be left. */
export function countUnits({ cost, reserved }: StoreCharge, { mode, permits }: DecisionRequest): number {
  return (mode === 'partial' ? cost : cost * permits) + reserved
}

function refusalName(rule: StoreCharge, units: number): string {
  return `${formatStatusName(rule)} ${units}`
}

/** What was told of a refusal, as it is by now. */
export function agedUsage(
  { usage, sentAtMs, receivedAtMs }: Pick<Refusal, 'usage' | 'sentAtMs' | 'receivedAtMs'>,
  nowMs: number,
): LimitState[] {
  // From the later moment: a caller who waits that long is not told to wait again.
  const aged = (ms: number) => (ms === 0 ? 0 : Math.max(1, ms - (nowMs - receivedAtMs)))
  return usage.map(({ remaining, resetMs, retryAfterMs, blockedMs }) => ({
    remaining,
    resetMs: Math.max(0, resetMs - (nowMs - sentAtMs)),
    retryAfterMs: aged(retryAfterMs),
    ...(blockedMs !== undefined && { blockedMs: aged(blockedMs) }),
  }))
}
