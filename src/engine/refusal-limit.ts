import { ALGORITHMS } from '../algorithms/algorithm-table.ts'
import { detectsNewIdentities } from '../algorithms/decide.ts'
import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../model/charge.ts'
import type { Store } from '../model/store.ts'
import type { CallContext } from '../runtime/call-context.ts'
import { Lru } from '../runtime/lru.ts'
import { agedUsage, countUnits } from './refusal-cache.ts'
import { decorate, type Stage } from './stage.ts'

/** Refusals by one key that the store is asked for in a span. */
const MAX_ASKED = 3
/** Retry-After is never shorter than this, so a caller that obeys it does not notice. */
const SPAN_MS = 1_000
/** The refusal that asked for most is repeated for so long at most. */
const MAX_AGE_MS = 5_000
const NEVER = Number.NEGATIVE_INFINITY
/** Keys remembered at most, of each kind. */
const MAX_KEYS = 10_000

/** The refusal by a key that asked for most. */
interface Refusal {
  readonly usage: readonly LimitState[]
  readonly units: number
  /** The isolate's clock before and after, and the store's. */
  readonly sentAtMs: number
  readonly receivedAtMs: number
  readonly nowMs: number
}

/** What a key has refused within a span. */
interface Refusals {
  readonly startMs: number
  /** Refusals that the store was asked for. */
  readonly asked: number
  readonly plan: string | undefined
  /** The least units that it refused, or would have. */
  readonly minUnits: number
  readonly most: Refusal
  /** By key, the units that rules with a block had left, which did not refuse. */
  readonly remaining: ReadonlyMap<string, number>
}

/**
 * Asks a store for at most three refusals by one key a second, and then repeats them until the second is over. It is for
 * refusals that cannot be remembered for as long as they say: each cost is refused by itself, and is repeated only while
 * no more units can have come back. Slots may become free at any moment, and an address that may bring no more new
 * identities may still bring known ones: there, a repeated refusal may be up to a second too old.
 * @param now milliseconds since the Unix epoch
 */
export function withRefusalLimit(now: () => number): Stage {
  return (store) => {
    const limiter = new RefusalLimiter(store, now)
    return decorate(store, {
      decide: limiter.decide,
      async release(rules) {
        await store.release(rules)
        limiter.noteGivenBack(rules.map(({ key }) => key))
      },
      async revoke(releases) {
        await store.revoke(releases)
        limiter.noteGivenBack(releases.map(({ rule }) => rule.key))
      },
      async settle(differences, chargedAtMs) {
        await store.settle(differences, chargedAtMs)
        limiter.noteGivenBack(differences.map(({ rule }) => rule.key))
      },
      async forget(keys) {
        await store.forget(keys)
        limiter.noteGivenBack(keys)
      },
    })
  }
}

class RefusalLimiter {
  readonly #store: Store
  readonly #now: () => number
  readonly #refusals = new Lru<Refusals>(MAX_KEYS)
  /** When units of a key were last given back: a refusal that was asked for before counts no more. */
  readonly #givenBackAtMs = new Lru<number>(MAX_KEYS)
  /** Keys of identities that the store has met. */
  readonly #known = new Lru<true>(MAX_KEYS)

  constructor(store: Store, now: () => number) {
    this.#store = store
    this.#now = now
  }

  readonly decide: Store['decide'] = async (request, context) => {
    const { mode } = request
    if (mode === 'peek' || mode === 'charge') return this.#store.decide(request, context)
    const sentAtMs = this.#now()
    const repeated = this.#repeat(request, sentAtMs)
    if (repeated) return repeated
    const seen = mode === 'all' && this.#isLikelyRefused(request, sentAtMs) && (await this.#look(request, context))
    if (seen) return seen
    const decision = await this.#store.decide(request, context)
    if (decision.granted === 0) this.#noteRefusals(request, decision, sentAtMs)
    else for (const { key } of request.rules.filter(detectsNewIdentities)) this.#known.set(key, true)
    return decision
  }

  /**
   * Asks only whether the identity is known. A charge would have to be taken back, over objects.
   * @returns undefined if it may be admitted, or if a refusal is to be counted
   */
  async #look(request: DecisionRequest, context: CallContext | undefined): Promise<Decision | undefined> {
    const sentAtMs = this.#now()
    const isAsked = (rule: StoreCharge) => isForNewOnes(rule) || this.#isNew(rule)
    const rules = request.rules.filter(isAsked)
    const decision = await this.#store.decide({ ...request, mode: 'peek', rules }, context)
    const told = decision.usage.values()
    const usage = request.rules.map((rule) => (isAsked(rule) ? (told.next().value ?? []) : []))
    const isCounted = request.rules.some((rule, index) => mustCount(rule, usage[index] ?? []))
    if (decision.granted > 0 || isCounted) return undefined
    const seen = { ...decision, usage }
    this.#noteRefusals(request, seen, sentAtMs)
    return seen
  }

  #repeat(request: DecisionRequest, nowMs: number): Decision | undefined {
    let first: Refusal | undefined
    const usage = request.rules.map((rule) => {
      const refusals = this.#refusalsOf(rule, request, nowMs)
      if (!refusals || refusals.asked < MAX_ASKED || !isWithin(refusals, nowMs)) return []
      first ??= refusals.most
      return agedUsage(refusals.most, nowMs)
    })
    return first && { granted: 0, nowMs: first.nowMs + nowMs - first.sentAtMs, usage, isProvisional: true }
  }

  /** Whether the address brings too many identities, and this one is not among the known ones. */
  #isLikelyRefused(request: DecisionRequest, nowMs: number): boolean {
    return request.rules.some((rule) => isForNewOnes(rule) && this.#refusalsOf(rule, request, nowMs))
  }

  /** @returns undefined if the rule does not refuse the request, as far as is known, or if the store must hear of it */
  #refusalsOf(rule: StoreCharge, request: DecisionRequest, nowMs: number): Refusals | undefined {
    const refusals = rule.enforced ? this.#refusals.get(rule.key) : undefined
    if (!refusals || refusals.plan !== rule.plan) return undefined
    const { minUnits, most, remaining } = refusals
    const units = countUnits(rule, request)
    if (units < minUnits || units > most.units) return undefined
    // A clock that stepped back says nothing about how much time has passed.
    if (nowMs < most.receivedAtMs || nowMs >= most.sentAtMs + longestRetryMs(most.usage)) return undefined
    if (!mayEndAnyTime(rule) && !isCertain(most, rule.reserved + units, nowMs)) return undefined
    const before = request.rules.slice(0, request.rules.indexOf(rule))
    if (isForNewOnes(rule) && !before.some((one) => this.#isNew(one))) return undefined
    const isUncounted = (one: StoreCharge) =>
      !mayBlock(one) ||
      (isForNewOnes(rule) && this.#isNew(one)) ||
      (remaining.get(one.key) ?? 0) >= countUnits(one, request)
    return request.rules.every(isUncounted) ? refusals : undefined
  }

  /** Whether it is about an identity that this isolate has not seen admitted. */
  #isNew(rule: StoreCharge): boolean {
    return detectsNewIdentities(rule) && !this.#known.get(rule.key)
  }

  #noteRefusals(request: DecisionRequest, { usage, nowMs, isProvisional }: Decision, sentAtMs: number): void {
    if (isProvisional) return
    const remaining = new Map<string, number>()
    for (const [index, rule] of request.rules.entries()) {
      const tiers = usage[index] ?? []
      if (!mayBlock(rule) || mustCount(rule, tiers)) continue
      // What a block refuses is not counted.
      remaining.set(rule.key, isBlocked(tiers) ? Number.POSITIVE_INFINITY : leastRemaining(tiers))
    }
    const receivedAtMs = this.#now()
    for (const [index, rule] of request.rules.entries()) {
      const tiers = usage[index] ?? []
      const { key, plan, enforced } = rule
      if (!enforced || longestRetryMs(tiers) === 0 || mustCount(rule, tiers)) continue
      if (sentAtMs <= (this.#givenBackAtMs.get(key) ?? 0)) continue
      const units = countUnits(rule, request)
      const latest = { usage: tiers, units, sentAtMs, receivedAtMs, nowMs }
      const before = this.#refusals.get(key)
      const known = before?.plan === plan ? before : undefined
      const span = known && isWithin(known, sentAtMs) ? known : { startMs: sentAtMs, asked: 0, minUnits: units }
      const isMost =
        !known ||
        units >= known.most.units ||
        sentAtMs - known.most.sentAtMs >= MAX_AGE_MS ||
        // Units were spent or came back since: what it told is no longer true.
        leastRemaining(tiers) !== leastRemaining(known.most.usage)
      this.#refusals.set(key, {
        ...{ startMs: span.startMs, asked: span.asked + 1, plan, remaining },
        // It would have refused whatever does not fit.
        ...{ minUnits: Math.min(span.minUnits, leastRemaining(tiers) + 1), most: isMost ? latest : known.most },
      })
    }
  }

  noteGivenBack(keys: readonly string[]): void {
    for (const key of keys) {
      this.#givenBackAtMs.set(key, this.#now())
      const known = this.#refusals.get(key)
      if (known) this.#refusals.set(key, { ...known, startMs: NEVER, most: { ...known.most, sentAtMs: NEVER } })
    }
  }
}

function isForNewOnes({ counts }: StoreCharge): boolean {
  return counts === 'identities'
}

/** Whether nobody can tell when what refuses is free again, so that three looks a second have to do. */
function mayEndAnyTime({ algorithm, counts }: StoreCharge): boolean {
  return counts === 'identities' || ALGORITHMS[algorithm].holdsSlots === true
}

/** Whether so many units cannot have come back: until its reset, a tier has no more than it had. */
function isCertain({ usage, sentAtMs }: Refusal, units: number, nowMs: number): boolean {
  return isBlocked(usage) || usage.some((tier) => tier.remaining < units && nowMs < sentAtMs + tier.resetMs)
}

function mayBlock({ enforced, block }: StoreCharge): boolean {
  return enforced && block !== undefined
}

function isWithin({ startMs }: Refusals, nowMs: number): boolean {
  return nowMs >= startMs && nowMs < startMs + SPAN_MS
}

function longestRetryMs(tiers: readonly LimitState[]): number {
  return Math.max(0, ...tiers.map(({ retryAfterMs }) => retryAfterMs))
}

/** Whether the rule refuses in a way that leads to a block: the store must hear of each time. */
function mustCount(rule: StoreCharge, tiers: readonly LimitState[]): boolean {
  return mayBlock(rule) && longestRetryMs(tiers) > 0 && !isBlocked(tiers)
}

function leastRemaining(tiers: readonly LimitState[]): number {
  return Math.min(...tiers.map(({ remaining }) => remaining))
}

function isBlocked(tiers: readonly LimitState[]): boolean {
  return tiers.some(({ blockedMs }) => blockedMs !== undefined)
}
