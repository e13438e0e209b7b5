import { usable } from '../algorithms/penalize.ts'
import type { Rule, TierUsage } from '../model/charge.ts'
import { callerIn } from '../model/charge.ts'
import type { Tier } from '../model/limits.ts'
import type { Pattern, RequestPolicy } from '../model/policy.ts'
import type { TierReport, Verdict } from '../model/verdict.ts'
import { type Match, PolicyFinder, priorityOf } from '../request/policy/policy-finder.ts'
import type { ReceivedRequest } from '../request/received-request.ts'
import { readMethods } from '../request/received-request.ts'
import { RuleMaker, type RuleMakerOptions } from '../request/rule-maker.ts'
import type { RequestPath } from '../request/target.ts'
import type { CallContext } from '../runtime/call-context.ts'
import type { Log } from '../runtime/log.ts'
import { listOf } from '../runtime/map-list.ts'
import { type Asking, type Decided, type Decider, isCharged } from './decider.ts'
import { failuresOf } from './failures.ts'
import type { Findings } from './findings.ts'
import type { Blocked, Ordered, Orders } from './orders.ts'
import { settlementOf } from './settlement.ts'
import type { UpstreamHealth } from './shedding/upstream-health.ts'

export interface LimiterOptions extends RuleMakerOptions {
  /** Requests that pass unlimited. */
  readonly exempt: readonly Pattern[]
  readonly decider: Pick<Decider, 'decide' | 'charge'>
  /** Undefined: no request is ever shed. */
  readonly health: Pick<UpstreamHealth, 'sheds'> | undefined
  readonly log: Log
}

/** What one policy is charged. */
export interface Charge {
  readonly match: Match
  readonly rule: Rule
  /** It is counted, but refuses nothing, and is not reported. */
  readonly isUnlimited?: boolean
}

/** What goes with a request. */
export interface Beside {
  /** Left out: there are none for this request. */
  readonly orders?: Orders | undefined
  /** To be filled in, if somebody wants to know. */
  readonly findings?: Findings | undefined
}

const NOTHING_BESIDE: Beside = {}

const ADMITTED: Verdict = { kind: 'admitted', tiers: [] }

/** How soon to come back while the upstream is overloaded. */
const SHED_RETRY_MS = 1_000

/** Decides requests: policies → priority → identities → one decision → verdict. */
export class Limiter {
  readonly #decider: Pick<Decider, 'decide' | 'charge'>
  readonly #health: Pick<UpstreamHealth, 'sheds'> | undefined
  readonly #log: Log
  readonly #finder: PolicyFinder
  readonly #rules: RuleMaker
  /** Whether a response may tell what there is to charge. */
  readonly #awaitsResponses: boolean

  constructor({ decider, health, log, exempt, ...options }: LimiterOptions) {
    this.#decider = decider
    this.#health = health
    this.#log = log
    this.#finder = new PolicyFinder(options.policies, exempt)
    this.#rules = new RuleMaker(options)
    this.#awaitsResponses = options.policies.some(
      ({ settleHeader, counts }) => settleHeader !== undefined || counts === 'failures',
    )
  }

  async decide(request: ReceivedRequest, path: RequestPath, context: CallContext, beside?: Beside): Promise<Verdict> {
    const charges = await this.ask(request, path, context, beside)
    // Awaited, because to resolve a promise by another one takes two turns more.
    return 'kind' in charges ? charges : await this.charge(charges, context)
  }

  /**
   * What is to be charged for a request, or what happens to it without that. It reads the request, so it must have
   * ended before somebody else reads its body.
   */
  async ask(
    request: ReceivedRequest,
    path: RequestPath,
    context: Pick<CallContext, 'waitUntil'>,
    { orders, findings }: Beside = NOTHING_BESIDE,
  ): Promise<readonly Charge[] | Verdict> {
    const matches = this.#finder.find(readMethods(request, this.#finder.methods), path)
    // Exempt requests are what operators must always get through: they are not shed either.
    if (matches === 'exempt') return ADMITTED
    if (matches === 'ambiguous') return { kind: 'ambiguous' }
    if (findings) findings.matches = matches
    const priority = priorityOf(matches, path)
    if (!orders?.isAllowed && this.#health?.sheds(priority)) return { kind: 'shed', retryAfterMs: SHED_RETRY_MS }

    const charges: Charge[] = []
    for (const match of matches) {
      if (match.policy.tiers.length === 0) continue
      const made = this.#rules.make(match, request, path.canonical, priority, context)
      const asked = made instanceof Promise ? await made : made
      if (asked.kind === 'rule') charges.push({ match, rule: asked.rule })
      else if (asked.kind !== 'skip') return asked
    }
    if (charges.length === 0) return ADMITTED
    const ordered = orders ? await orderedBy(orders, charges) : charges
    if (findings && !('kind' in ordered)) findings.charges = ordered
    return ordered
  }

  /** @param asking one permit if left out */
  async charge(charges: readonly Charge[], context: CallContext, asking?: Asking): Promise<Verdict> {
    const asked = listOf(charges, ({ match, rule }) => ({ rule, onStoreError: match.policy.onStoreError }))
    const decided = await this.#decider.decide(asked, context, asking)
    const verdict = this.#verdict(charges, decided, context)
    return decided.degraded === undefined ? verdict : { ...verdict, degraded: decided.degraded }
  }

  #verdict(charges: readonly Charge[], decided: Decided, context: CallContext): Verdict {
    const { granted, nowMs, usage, rules, hold, chargedIn, degraded } = decided
    if (degraded === 'closed') return { kind: 'unavailable' }
    const tiers: TierReport[] = []
    for (const [index, { match, isUnlimited }] of charges.entries()) {
      if (!isUnlimited) addReports(tiers, match.policy, rules[index] as Rule, usage[index] ?? [])
    }
    const refusing = tiers.filter(({ retryAfterMs }) => retryAfterMs > 0)
    if (granted > 0 && refusing.length === 0 && !this.#awaitsResponses) {
      return hold ? { kind: 'admitted', tiers, hold } : { kind: 'admitted', tiers }
    }
    const shadowed = refusing.filter(({ policy }) => !policy.enforced)
    if (shadowed.length > 0) {
      const violated = shadowed.map(({ name }) => name)
      this.#log('warn', { event: 'shadow_limited', violated, callers: callersOf(charges, shadowed) })
    }
    if (granted > 0) {
      const admitting = charges.flatMap(({ match }, index) =>
        isCharged(decided, index) ? [{ match, rule: rules[index] as Rule }] : [],
      )
      const settlement = settlementOf(admitting, nowMs, chargedIn)
      const failures = failuresOf(admitting, tiers, (failed) => this.#decider.charge(failed, decided, context))
      return {
        kind: 'admitted',
        tiers,
        ...(hold && { hold }),
        ...(settlement && { settlement }),
        ...(failures && { failures }),
      }
    }
    const enforced = refusing.filter(({ policy }) => policy.enforced)
    const retryAfterMs = Math.max(...enforced.map((tier) => tier.retryAfterMs))
    const violated = enforced.filter(({ isReserve }) => !isReserve)
    return violated.length > 0
      ? { kind: 'limited', tiers, violated, retryAfterMs }
      : { kind: 'reserved', tiers, retryAfterMs }
  }
}

async function orderedBy(orders: Orders, charges: readonly Charge[]): Promise<readonly Charge[] | Blocked> {
  const ordered = await orders.apply(charges.map(({ match: { policy }, rule }) => ({ policy, rule })))
  return 'kind' in ordered ? ordered : charges.map(({ match }, at) => ({ match, ...(ordered[at] as Ordered) }))
}

/** Who would have been refused: for each policy, the identity as its key in Redis has it. */
function callersOf(charges: readonly Charge[], shadowed: readonly TierReport[]): Record<string, string> {
  const callers = charges
    .filter(({ match }) => shadowed.some(({ policy }) => policy === match.policy))
    .map(({ match, rule }) => [match.policy.name, callerIn(rule.key)])
  return Object.fromEntries(callers)
}

function addReports(reports: TierReport[], policy: RequestPolicy, rule: Rule, usage: readonly TierUsage[]): void {
  for (const [index, told] of usage.entries()) {
    const { remaining, resetMs, retryAfterMs, blockedMs } = usable(told)
    // While the store is away, the rule's limit is a share of the policy's.
    const { limit, windowMs } = rule.tiers[index] as Tier
    const report: TierReport = {
      policy,
      name: policy.tiers[index]?.name ?? policy.name,
      limit,
      windowMs,
      // What is reserved for others is not left for this request.
      remaining: Math.max(0, remaining - rule.reserved),
      isReserve: rule.reserved > 0 && remaining >= rule.cost,
      resetMs,
      retryAfterMs,
    }
    reports.push(blockedMs === undefined ? report : { ...report, blockedMs })
  }
}
