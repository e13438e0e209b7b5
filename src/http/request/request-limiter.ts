/** Decides requests: policies, priority, identities, one decision, a verdict. */
import { holdsSlots } from '../../core/algorithms/algorithm-table.ts'
import { Engine, type EngineDecision, type EngineOptions, isCharged } from '../../core/engine/engine.ts'
import type { StageWatch } from '../../core/engine/stages/stage.ts'
import type { DecisionRequest, RequestCharge } from '../../core/model/charge.ts'
import { isEnforced, type Pattern, type RequestPolicy } from '../../core/model/policy.ts'
import {
  type Admitted,
  type Blocked,
  DEGRADATIONS,
  type Refused,
  type ReportedLimit,
  reportLimits,
  SLOT_RETRY_MS,
  toWholeMs,
  type Verdict,
} from '../../core/model/verdict.ts'
import type { CallContext } from '../../core/runtime/call-context.ts'
import type { Log } from '../../core/runtime/log.ts'
import { TextLru } from '../../core/runtime/lru.ts'
import type { UpstreamHealth } from '../../core/shedding/upstream-health.ts'
import { mustAwaitResponse, RequestChargeBuilder, type RequestChargeBuilderOptions } from './charge-builder.ts'
import { findPriority, type Match, PolicyFinder } from './policy/policy-finder.ts'
import { type Exchange, readMethods } from './received-request.ts'
import type { CreateSettlement } from './settlement.ts'

export interface RequestLimiterOptions extends RequestChargeBuilderOptions {
  /** Requests that no policy evaluates. */
  readonly exempt: readonly Pattern[]
  readonly engine: Pick<Engine, 'decide' | 'record'>
  /** Without it, no request is shed. */
  readonly health: Pick<UpstreamHealth, 'sheds'> | undefined
  /** Undefined if no policy charges by the response. */
  readonly createSettlement: CreateSettlement | undefined
  readonly log: Log
  readonly watch?: Pick<StageWatch, 'onUntold'> | undefined
}

/** Runtime rules that match a request. */
export interface MatchedRules {
  /** The caller is counted but never limited, and the request is never shed. */
  readonly isAllowed: boolean
  /** @returns charges that replace these, in order */
  apply(charges: readonly RequestCharge[]): Promise<readonly RequestCharge[] | Blocked>
}

/** Found on the way to a verdict, for statistics. */
export interface DecisionTrace {
  /** Policies that apply; empty if they were not looked up. */
  matches: readonly Match[]
  /** Charges that the engine decided; empty if there were none. */
  charges: readonly RequestCharge[]
}

export interface DecideOptions {
  readonly rules?: MatchedRules | undefined
  /** The limiter fills it in. */
  readonly trace?: DecisionTrace | undefined
  /** Tells if a policy is left out. */
  readonly skips?: ((policy: RequestPolicy) => boolean) | undefined
}

const ADMITTED: Verdict = { outcome: 'admitted', limits: [] }

/** Retry-After while the upstream is overloaded. */
const SHED_RETRY_MS = toWholeMs(1_000)

export class RequestLimiter {
  readonly #engine: RequestLimiterOptions['engine']
  readonly #health: RequestLimiterOptions['health']
  readonly #log: Log
  readonly #watch: RequestLimiterOptions['watch']
  readonly #finder: PolicyFinder
  readonly #builder: RequestChargeBuilder
  readonly #createSettlement: CreateSettlement | undefined

  constructor({ engine, health, createSettlement, log, watch, exempt, ...options }: RequestLimiterOptions) {
    this.#engine = engine
    this.#health = health
    this.#log = log
    this.#watch = watch
    this.#finder = new PolicyFinder(options.policies, exempt)
    this.#builder = new RequestChargeBuilder(options)
    this.#createSettlement = options.policies.some(mustAwaitResponse) ? createSettlement : undefined
  }

  async decide(exchange: Exchange, options?: DecideOptions): Promise<Verdict> {
    const charges = await this.findCharges(exchange, options)
    if ('outcome' in charges) return charges
    const { context } = exchange
    return this.#toVerdict(await this.#engine.decide(charges, context), context)
  }

  /**
   * Finds the charges of a request, or its verdict if there are none. It may read the body of the request, so it must
   * end before another reader begins.
   */
  async findCharges(
    { request, path, context }: Exchange,
    { rules, trace, skips }: DecideOptions = {},
  ): Promise<readonly RequestCharge[] | Verdict> {
    const matches = this.#finder.find(readMethods(request, this.#finder.methods), path)
    // Exempt requests must always be admitted, so they are not shed either.
    if (matches === 'exempt') return ADMITTED
    if (matches === 'ambiguous') return { outcome: 'ambiguous_path' }
    if (trace) trace.matches = matches
    const priority = findPriority(matches, path)
    if (!rules?.isAllowed && this.#health?.sheds(priority)) return { outcome: 'shed', retryAfterMs: SHED_RETRY_MS }

    const charges: RequestCharge[] = []
    for (const match of matches) {
      if (match.policy.limits.length === 0 || skips?.(match.policy)) continue
      const own = isEnforced(match.policy) ? priority : findPriority(matches, path, match.policy.mode)
      const charge = await this.#builder.build(match, request, path.canonical, own, context)
      if (charge === 'skip') {
        if (trace) trace.matches = trace.matches.filter((one) => one !== match)
        continue
      }
      if ('outcome' in charge) return charge
      charges.push(charge)
    }
    if (charges.length === 0) return ADMITTED
    const applied = rules ? await rules.apply(charges) : charges
    if (trace && !('outcome' in applied)) trace.charges = applied
    return applied
  }

  /** @param permits one if left out */
  async decideCharges(
    charges: readonly RequestCharge[],
    context: CallContext,
    permits?: Pick<DecisionRequest, 'action' | 'permits'>,
  ): Promise<Verdict> {
    return this.#toVerdict(await this.#engine.decide(charges, context, permits), context)
  }

  #toVerdict(decision: EngineDecision<RequestCharge>, context: CallContext): Verdict {
    const { degraded } = decision
    if (degraded === undefined) return this.#judge(decision, context)
    const verdict: Verdict = DEGRADATIONS[degraded].refusesAll
      ? { outcome: 'unavailable' }
      : this.#judge(decision, context)
    return { ...verdict, degraded }
  }

  #judge(decision: EngineDecision<RequestCharge>, context: CallContext): Admitted | Refused {
    const { granted, usage, charges, hold } = decision
    const limits = reportLimits(charges, usage)
    if (granted === 0 || this.#createSettlement || limits.some(isRefusing)) {
      return this.#judgeRefusals(decision, limits, context)
    }
    return hold ? { outcome: 'admitted', limits, hold } : { outcome: 'admitted', limits }
  }

  #judgeRefusals(
    decision: EngineDecision<RequestCharge>,
    limits: readonly ReportedLimit[],
    context: CallContext,
  ): Admitted | Refused {
    const { granted, charges, hold } = decision
    const refusing = limits.filter(isRefusing)
    const shadowed = refusing.filter(({ policy }) => !isEnforced(policy))
    if (shadowed.length > 0) {
      const violated = shadowed.map(({ name }) => name)
      this.#log('warn', { event: 'shadow_limited', violated, callers: groupDigests(charges, shadowed) })
    }
    if (granted > 0) {
      const charged = charges.filter((_, index) => isCharged(decision, index))
      const about = { engine: this.#engine, decision, context, log: this.#log, watch: this.#watch }
      const settlement = this.#createSettlement?.(charged, limits, about)
      return { outcome: 'admitted', limits, ...(hold && { hold }), ...(settlement && { settlement }) }
    }
    const enforced = refusing.filter(({ policy }) => isEnforced(policy))
    const retryAfterMs = toWholeMs(Math.max(...enforced.map(findWaitMs)))
    const violated = enforced.filter(({ isReserve }) => !isReserve)
    return violated.length > 0
      ? { outcome: 'limited', limits, violated, retryAfterMs }
      : { outcome: 'deprioritized', limits, violated: enforced, retryAfterMs }
  }
}

function isRefusing({ retryAfterMs }: ReportedLimit): boolean {
  return retryAfterMs > 0
}

function findWaitMs({ policy, retryAfterMs }: ReportedLimit): number {
  return holdsSlots(policy) ? Math.min(retryAfterMs, SLOT_RETRY_MS) : retryAfterMs
}

/** The digests of the callers that policies in shadow mode would have refused, by policy. */
function groupDigests(charges: readonly RequestCharge[], shadowed: readonly ReportedLimit[]): Record<string, string> {
  const refused = charges.filter(({ policy }) => shadowed.some((limit) => limit.policy === policy))
  return Object.fromEntries(refused.map(({ policy, digest }) => [policy.name, digest]))
}

export type ComposedLimiter = ReturnType<typeof composeLimiter>

type LimiterParts = Omit<RequestLimiterOptions, 'engine' | 'digestsOfTokens'> & EngineOptions

export function composeLimiter(parts: LimiterParts & { readonly health: UpstreamHealth | undefined }) {
  const engine = new Engine(parts)
  const digestsOfTokens = new TextLru<string>()
  const limiter = new RequestLimiter({ ...parts, engine, digestsOfTokens })
  const { health, createSettlement, watch } = parts
  return { limiter, engine, health, createSettlement, watch, digestsOfTokens }
}
