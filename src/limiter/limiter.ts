import type { Config } from '../config/load-config.ts'
import { Deadlines } from '../store/deadlines.ts'
import type { Log } from '../decide/log.ts'
import { localShareOf } from '../decide/local-share.ts'
import type { Policy } from '../request/policy/policy.ts'
import { type Match, PolicyFinder, priorityOf } from '../request/policy/policy-finder.ts'
import { readMethods } from '../request/policy/request-method.ts'
import type { RequestPath } from '../request/policy/request-path.ts'
import type { UpstreamHealth } from './shedding/upstream-health.ts'
import type { Rule, Store, StoreDecision, Tier, TierUsage } from '../store/store.ts'
import { StoreError } from '../store/store.ts'
import type { WaitUntil } from '../store/call-context.ts'
import { holdOf, lostHoldOf } from '../decide/hold.ts'
import { RuleMaker, withNewSlot } from '../request/rule-maker.ts'
import { settlementOf } from './settlement.ts'
import type { TierReport, Verdict } from './verdict.ts'

export interface LimiterOptions {
  readonly config: Config
  readonly store: Store
  /** Decides in place of `store`, by what is known already or by asking it. */
  readonly decider: Pick<Store, 'decide'>
  /** Decides where `store` gives no answer, for policies that are then `local`. */
  readonly fallback: Store
  /** Undefined: no request is shed for the upstream's sake. */
  readonly health: UpstreamHealth | undefined
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  readonly log: Log
}

interface Charge {
  readonly match: Match
  readonly rule: Rule
}

const ADMITTED: Verdict = { kind: 'admitted', tiers: [] }

/** How soon to come back when the upstream is not well. */
const SHED_RETRY_MS = 1_000

/** Decides requests: policies → priority → identities → one store call → verdict. */
export class Limiter {
  readonly #config: Config
  readonly #store: Store
  readonly #decider: Pick<Store, 'decide'>
  readonly #fallback: Store
  readonly #health: UpstreamHealth | undefined
  readonly #now: () => number
  readonly #log: Log
  readonly #finder: PolicyFinder
  readonly #rules: RuleMaker

  constructor({ config, store, decider, fallback, health, now, log }: LimiterOptions) {
    this.#config = config
    this.#store = store
    this.#decider = decider
    this.#fallback = fallback
    this.#health = health
    this.#now = now
    this.#log = log
    this.#finder = new PolicyFinder(config.policies, config.exempt)
    this.#rules = new RuleMaker(config)
  }

  async decide(request: Request, path: RequestPath, waitUntil: WaitUntil): Promise<Verdict> {
    const matches = this.#finder.find(readMethods(request, this.#finder.methods), path)
    // Exempt requests are what operators must always get through: they are not shed either.
    if (matches === 'exempt') return ADMITTED
    if (matches === 'ambiguous') return { kind: 'ambiguous' }
    const priority = priorityOf(matches, path)
    if (this.#health?.sheds(priority)) return { kind: 'shed', retryAfterMs: SHED_RETRY_MS }

    const charges: Charge[] = []
    for (const match of matches) {
      if (match.policy.tiers.length === 0) continue
      const asked = await this.#rules.make(match, request, path.canonical, priority)
      if (asked.kind === 'rule') charges.push({ match, rule: asked.rule })
      else if (asked.kind !== 'skip') return asked
    }
    return charges.length === 0 ? ADMITTED : this.#charge(charges, waitUntil)
  }

  async #charge(charges: readonly Charge[], waitUntil: WaitUntil, isRepeated = false): Promise<Verdict> {
    const rules = charges.map(({ rule }) => rule)
    const askedMs = this.#now()
    try {
      const decision = await this.#decider.decide({ mode: 'all', permits: 1, rules }, waitUntil)
      const ageMs = this.#now() - askedMs
      if (decision.granted === 0 || ageMs <= this.#config.storeTimeoutMs) {
        return this.#verdict(charges, decision, this.#store)
      }
      // It held when it was made. An isolate that stood still meanwhile would let go at once what windows had spread.
      this.#log('error', { event: 'late_decision', ageMs, repeated: !isRepeated })
      await this.#giveBack(rules, waitUntil)
      if (isRepeated) throw new StoreError('its decisions come too late', { mayHaveRun: false })
      const again = charges.map(({ match, rule }) => ({ match, rule: withNewSlot(rule) }))
      return this.#charge(again, waitUntil, true)
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      const verdict = await this.#withoutStore(charges)
      this.#log('error', { event: 'store_error', message: error.message, answered: verdict.degraded })
      // The store may have decided all the same: what it then holds for this request must not wait for its deadline.
      const lost = error.mayHaveRun ? lostHoldOf(rules, this.#store) : undefined
      return lost ? { ...verdict, lost } : verdict
    }
  }

  /** Gives back what an admitted request held. Whatever asks for it anew should find it free, but not wait for that long. */
  async #giveBack(rules: readonly Rule[], waitUntil: WaitUntil): Promise<void> {
    const released = holdOf(rules, this.#store)?.release()
    if (!released) return
    waitUntil(released)
    await (waitUntil.deadlines ?? Deadlines.ofOne()).within(this.#config.storeTimeoutMs, released)
  }

  /** Decides while the store gives no answer, as each policy says. */
  async #withoutStore(charges: readonly Charge[]): Promise<Verdict> {
    const modes = charges.map(({ match: { policy } }) => policy.onStoreError)
    // Shadow policies refuse nothing, whatever becomes of the store.
    if (charges.some(({ rule }, index) => rule.enforced && modes[index] === 'closed')) {
      return { kind: 'unavailable', degraded: 'closed' }
    }
    const local = charges
      .filter((_, index) => modes[index] === 'local')
      .map(({ match, rule }) => ({ match, rule: localShareOf(rule, this.#config.localShare) }))
    if (local.length === 0) return { ...ADMITTED, degraded: 'open' }
    const rules = local.map(({ rule }) => rule)
    const decision = await this.#fallback.decide({ mode: 'all', permits: 1, rules })
    const degraded = local.length < charges.length ? 'local, open' : 'local'
    return { ...this.#verdict(local, decision, this.#fallback), degraded }
  }

  #verdict(charges: readonly Charge[], { granted, nowMs, usage }: StoreDecision, store: Store): Verdict {
    const tiers: TierReport[] = []
    charges.forEach(({ match, rule }, index) => {
      addReports(tiers, match.policy, rule, usage[index] ?? [])
    })
    const refusing = tiers.filter(({ retryAfterMs }) => retryAfterMs > 0)
    const shadowed = refusing.filter(({ policy }) => !policy.enforced)
    if (shadowed.length > 0) {
      const violated = shadowed.map(({ name }) => name)
      this.#log('warn', { event: 'shadow_limited', violated, callers: callersOf(charges, shadowed) })
    }
    if (granted > 0) {
      // A shadow rule that would have refused was not charged.
      const charged =
        shadowed.length === 0
          ? charges
          : charges.filter((_, index) => usage[index]?.every(({ retryAfterMs }) => retryAfterMs === 0))
      const rules = charged.map(({ rule }) => rule)
      const hold = holdOf(rules, store)
      const settlement = settlementOf(charged, nowMs, store)
      return { kind: 'admitted', tiers, ...(hold && { hold }), ...(settlement && { settlement }) }
    }
    const enforced = refusing.filter(({ policy }) => policy.enforced)
    const retryAfterMs = Math.max(...enforced.map((tier) => tier.retryAfterMs))
    const violated = enforced.filter(({ isReserve }) => !isReserve)
    return violated.length > 0
      ? { kind: 'limited', tiers, violated, retryAfterMs }
      : { kind: 'reserved', tiers, retryAfterMs }
  }
}

/** Who would have been refused: for each policy, the identity as its key in Redis has it. */
function callersOf(charges: readonly Charge[], shadowed: readonly TierReport[]): Record<string, string> {
  const callers = charges
    .filter(({ match }) => shadowed.some(({ policy }) => policy === match.policy))
    .map(({ match, rule: { key } }) => [match.policy.name, key.slice(key.indexOf('{') + 1, -1)])
  return Object.fromEntries(callers)
}

function addReports(reports: TierReport[], policy: Policy, rule: Rule, usage: readonly TierUsage[]): void {
  usage.forEach(({ remaining, resetMs, retryAfterMs }, index) => {
    // While the store is away, the rule's limit is a share of the policy's.
    const { limit, windowMs } = rule.tiers[index] as Tier
    reports.push({
      policy,
      name: policy.tiers[index]?.name ?? policy.name,
      limit,
      windowMs,
      // What is reserved for others is not left for this request.
      remaining: Math.max(0, remaining - rule.reserved),
      isReserve: rule.reserved > 0 && remaining >= rule.cost,
      resetMs,
      retryAfterMs,
    })
  })
}
