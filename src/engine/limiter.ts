import { toReported } from '../algorithms/penalize.ts'
import type { Charge, DecisionRequest, LimitState, RequestCharge } from '../model/charge.ts'
import type { Limit } from '../model/limits.ts'
import type { Pattern } from '../model/policy.ts'
import type { Store } from '../model/store.ts'
import type { Blocked, Failures, ReportedLimit, Settlement, Verdict } from '../model/verdict.ts'
import { ChargeBuilder, type ChargeBuilderOptions } from '../request/charge-builder.ts'
import type { ClaimReader } from '../request/identity/claims.ts'
import { findPriority, type Match, PolicyFinder } from '../request/policy/policy-finder.ts'
import { type ReceivedRequest, readMethods } from '../request/received-request.ts'
import type { RequestPath } from '../request/target.ts'
import type { CallContext } from '../runtime/call-context.ts'
import type { Log } from '../runtime/log.ts'
import { TextLru } from '../runtime/lru.ts'
import { MemoryStore } from '../store/memory/memory-store.ts'
import { Engine, type EngineDecision, type EngineOptions, isCharged } from './engine.ts'
import type { UpstreamHealth } from './upstream-health.ts'

export interface LimiterOptions extends ChargeBuilderOptions {
  /** Requests that pass unlimited. */
  readonly exempt: readonly Pattern[]
  readonly engine: Pick<Engine, 'decide' | 'charge'>
  /** Undefined: no request is ever shed. */
  readonly health: Pick<UpstreamHealth, 'sheds'> | undefined
  readonly log: Log
}

/** The rules of the operators that match a request. */
export interface MatchedRules {
  /** Its caller is never limited, though counted; nor is the request shed. */
  readonly isAllowed: boolean
  /** @returns what takes the place of the charges, in order; later, if the body of the request is to be read */
  apply(
    charges: readonly RequestCharge[],
  ): readonly RequestCharge[] | Blocked | Promise<readonly RequestCharge[] | Blocked>
}

/** What a limiter finds out on its way to a verdict, for statistics. */
export interface DecisionTrace {
  /** The policies that apply; none if it has not come so far. */
  matches: readonly Match[]
  /** What the store was asked for; empty if it was not. */
  charges: readonly RequestCharge[]
}

export interface DecideOptions {
  /** Left out: none matches this request. */
  readonly rules?: MatchedRules | undefined
  /** To be filled in. */
  readonly trace?: DecisionTrace | undefined
}

const ADMITTED: Verdict = { kind: 'admitted', tiers: [] }

/** How soon to come back while the upstream is overloaded. */
const SHED_RETRY_MS = 1_000

/** Decides requests: policies → priority → identities → one decision → verdict. */
export class Limiter {
  readonly #engine: LimiterOptions['engine']
  readonly #health: LimiterOptions['health']
  readonly #log: Log
  readonly #finder: PolicyFinder
  readonly #builder: ChargeBuilder
  /** Whether a response may say what there is to charge. */
  readonly #awaitsResponses: boolean

  constructor({ engine, health, log, exempt, ...options }: LimiterOptions) {
    this.#engine = engine
    this.#health = health
    this.#log = log
    this.#finder = new PolicyFinder(options.policies, exempt)
    this.#builder = new ChargeBuilder(options)
    this.#awaitsResponses = options.policies.some(
      ({ settleHeader, counts }) => settleHeader !== undefined || counts === 'failures',
    )
  }

  async decide(
    request: ReceivedRequest,
    path: RequestPath,
    context: CallContext,
    options?: DecideOptions,
  ): Promise<Verdict> {
    const charges = await this.findCharges(request, path, context, options)
    // Awaited, because to resolve a promise by another one takes two turns more.
    return 'kind' in charges ? charges : await this.charge(charges, context)
  }

  /**
   * What is to be charged for a request, or what happens to it without that. It reads the request, so it must have
   * ended before somebody else reads its body.
   */
  async findCharges(
    request: ReceivedRequest,
    path: RequestPath,
    context: Pick<CallContext, 'waitUntil'>,
    { rules, trace }: DecideOptions = {},
  ): Promise<readonly RequestCharge[] | Verdict> {
    const matches = this.#finder.find(readMethods(request, this.#finder.methods), path)
    // Exempt requests are what operators must always get through: they are not shed either.
    if (matches === 'exempt') return ADMITTED
    if (matches === 'ambiguous') return { kind: 'ambiguous' }
    if (trace) trace.matches = matches
    const priority = findPriority(matches, path)
    if (!rules?.isAllowed && this.#health?.sheds(priority)) return { kind: 'shed', retryAfterMs: SHED_RETRY_MS }

    const charges: RequestCharge[] = []
    for (const match of matches) {
      if (match.policy.tiers.length === 0) continue
      const built = this.#builder.build(match, request, path.canonical, priority, context)
      const charge = built instanceof Promise ? await built : built
      if (charge === 'skip') continue
      if ('kind' in charge) return charge
      charges.push(charge)
    }
    if (charges.length === 0) return ADMITTED
    const applied = rules ? await rules.apply(charges) : charges
    if (trace && !('kind' in applied)) trace.charges = applied
    return applied
  }

  /** @param permits one if left out */
  async charge(
    charges: readonly RequestCharge[],
    context: CallContext,
    permits?: Pick<DecisionRequest, 'mode' | 'permits'>,
  ): Promise<Verdict> {
    const decision = await this.#engine.decide(charges, context, permits)
    const verdict = this.#toVerdict(decision, context)
    return decision.degraded === undefined ? verdict : { ...verdict, degraded: decision.degraded }
  }

  #toVerdict(decision: EngineDecision<RequestCharge>, context: CallContext): Verdict {
    const { granted, usage, charges, hold, degraded } = decision
    if (degraded === 'closed') return { kind: 'unavailable' }
    const tiers: ReportedLimit[] = []
    for (const [index, charge] of charges.entries()) {
      if (!charge.isUnlimited) addReports(tiers, charge, usage[index] ?? [])
    }
    const refusing = tiers.filter(({ retryAfterMs }) => retryAfterMs > 0)
    if (granted > 0 && refusing.length === 0 && !this.#awaitsResponses) {
      return hold ? { kind: 'admitted', tiers, hold } : { kind: 'admitted', tiers }
    }
    const shadowed = refusing.filter(({ policy }) => !policy.enforced)
    if (shadowed.length > 0) {
      const violated = shadowed.map(({ name }) => name)
      this.#log('warn', { event: 'shadow_limited', violated, callers: digestsByPolicy(charges, shadowed) })
    }
    if (granted > 0) {
      const charged = charges.filter((_, index) => isCharged(decision, index))
      const settlement = createSettlement(charged, decision)
      const failures = createFailures(charged, tiers, (failed) => this.#engine.charge(failed, decision, context))
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

/** Who would have been refused: for each policy, the digest. */
function digestsByPolicy(
  charges: readonly RequestCharge[],
  shadowed: readonly ReportedLimit[],
): Record<string, string> {
  const refused = charges.filter(({ policy }) => shadowed.some((tier) => tier.policy === policy))
  return Object.fromEntries(refused.map(({ policy, digest }) => [policy.name, digest]))
}

function addReports(reports: ReportedLimit[], charge: RequestCharge, usage: readonly LimitState[]): void {
  const { policy, reserved, cost } = charge
  for (const [index, told] of usage.entries()) {
    const { remaining, resetMs, retryAfterMs, blockedMs } = toReported(told)
    // While the store is away, the charge's limit is a share of the policy's.
    const { limit, windowMs } = charge.tiers[index] as Limit
    const report: ReportedLimit = {
      policy,
      name: policy.tiers[index]?.name ?? policy.name,
      limit,
      windowMs,
      // What is reserved for others is not left for this request.
      remaining: Math.max(0, remaining - reserved),
      isReserve: reserved > 0 && remaining >= cost,
      resetMs,
      retryAfterMs,
    }
    reports.push(blockedMs === undefined ? report : { ...report, blockedMs })
  }
}

/** @returns undefined if no policy waits for the actual cost */
function createSettlement(
  charges: readonly RequestCharge[],
  { nowMs, chargedIn }: EngineDecision,
): Settlement | undefined {
  const open = charges.filter(({ policy }) => policy.settleHeader !== undefined)
  if (open.length === 0) return undefined
  return {
    async settle(headers) {
      const differences = open.flatMap((rule) => {
        const text = headers.get(rule.policy.settleHeader ?? '')?.trim() ?? ''
        const units = /^\d{1,10}$/.test(text) ? Math.min(Number(text), findCapacity(rule)) - rule.cost : 0
        return units === 0 ? [] : [{ rule, units }]
      })
      if (differences.length > 0) await chargedIn.settle(differences, nowMs)
    },
  }
}

/** A request that cost more than the whole capacity has used up the capacity. */
function findCapacity({ burst, tiers }: Charge): number {
  return burst ?? Math.max(...tiers.map(({ limit }) => limit))
}

/**
 * @param tiers as they stood when the request was let through
 * @returns undefined if no policy counts failures
 */
function createFailures(
  charges: readonly RequestCharge[],
  tiers: readonly ReportedLimit[],
  charge: (failed: readonly RequestCharge[]) => Promise<void>,
): Failures | undefined {
  const open = charges.filter(({ policy }) => policy.counts === 'failures')
  if (open.length === 0) return undefined
  return {
    of(status) {
      const failed = open.filter(({ policy }) => policy.failures.includes(status))
      if (failed.length === 0) return undefined
      return {
        tiers: tiers.map((tier) => {
          const cost = failed.find(({ policy }) => policy === tier.policy)?.cost ?? 0
          return { ...tier, remaining: Math.max(0, tier.remaining - cost) }
        }),
        charge: () => charge(failed),
      }
    },
  }
}

/** How requests are limited, wherever that is done. */
export interface LimiterConfig
  extends Omit<LimiterOptions, 'engine' | 'health' | 'log' | 'readClaim' | 'digestsOfTokens'>,
    Pick<EngineOptions, 'localShare'> {
  /** Deadline of a decision by the store, in milliseconds. */
  readonly storeTimeoutMs: number
}

/** What the parts depend on. */
export interface LimiterParts extends Pick<EngineOptions, 'leases' | 'avoided'> {
  readonly store: Store
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  readonly log: Log
  /** Left out: no token can be verified. */
  readonly readClaim?: ClaimReader | undefined
  /** Left out: what answers is not watched, and no request is ever shed. */
  readonly health?: UpstreamHealth | undefined
}

export interface ComposedLimiter
  extends Pick<LimiterParts, 'health'>,
    Required<Pick<LimiterOptions, 'digestsOfTokens'>> {
  readonly limiter: Limiter
  readonly engine: Engine
}

/** Puts together all that decides: a store, the engine around it, and the limiter that reads requests. */
export function composeLimiter(config: LimiterConfig, parts: LimiterParts): ComposedLimiter {
  const { now, log, readClaim, health } = parts
  const { localShare, storeTimeoutMs: timeoutMs } = config
  const engine = new Engine({ ...parts, fallback: new MemoryStore(now), timeoutMs, localShare })
  const digestsOfTokens = new TextLru<string>()
  const limiter = new Limiter({ ...config, engine, health, log, readClaim, digestsOfTokens })
  return { limiter, engine, health, digestsOfTokens }
}
