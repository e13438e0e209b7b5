/** Decides the descriptors of a request: one decision for all of them, or each by itself. */
import { ALGORITHMS } from '../core/algorithms/algorithm-table.ts'
import type { DecisionWatch } from '../core/engine/decision-watch.ts'
import type { Engine, EngineDecision } from '../core/engine/engine.ts'
import { type Charge, formatKey } from '../core/model/charge.ts'
import { type ReportedLimit, reportLimits, toLimitStatus } from '../core/model/verdict.ts'
import { MAX_COST, OptionError } from '../core/options/option-error.ts'
import type { CallContext } from '../core/runtime/call-context.ts'
import { createDigest } from '../core/runtime/digest.ts'
import { TextLru } from '../core/runtime/lru.ts'
import type { Config } from '../http/config/load-config.ts'
import type { ObservedRequest } from '../http/request/rate-limit.ts'
import { type CountingPolicy, setRateLimitHeaders } from '../http/response/rate-limit-headers.ts'
import { findMaxCost } from '../library/policies.ts'
import {
  type Descriptor,
  type DescriptorStatus,
  type RateLimitRequest,
  type RateLimitResponse,
  UNITS,
  type Unit,
} from './messages.ts'
import type { RuleCounts } from './rule-counts.ts'
import { canGiveBack, type Domains, findRule, type Rule, type RuleMatch } from './rules.ts'

/** A request that cannot be decided. */
export class RequestError extends Error {
  override readonly name = 'RequestError'
}

/** Stands in keys where the name of a policy does. */
const KEY_NAME = 'ratelimit'
const MAX_UINT32 = 2 ** 32 - 1

export interface DecideOptions {
  readonly engine: Engine
  readonly config: Pick<Config, 'keyPrefix' | 'identitySecret' | 'headerFormat' | 'onStoreError' | 'isShadow'>
  readonly now: () => number
  /** As the reference server does: each descriptor is charged as far as it can be, whatever becomes of the others. */
  readonly isEachAlone: boolean
  readonly counts: RuleCounts
  readonly watch: RequestWatch | undefined
}

/** Tells a function of each decision about a request, as the middleware does. */
interface RequestWatch extends DecisionWatch {
  onDecision(decision: ObservedRequest): void
}

type PolicyDecision = EngineDecision<Charge<CountingPolicy>>

/** A descriptor with limits to count in. */
interface Question {
  readonly index: number
  readonly rule: Rule
  readonly metricKey: string
  readonly policy: CountingPolicy
  /** Of one unit. */
  readonly charge: Charge<CountingPolicy>
  /** 0 asks whether one more would fit; below 0 gives back. */
  readonly hits: number
}

interface Answer {
  /** Not all hits have fit, which refuses nothing in shadow mode. */
  readonly isFull: boolean
  readonly limits: readonly ReportedLimit<CountingPolicy>[]
}

export function createDecide({ engine, config, now, isEachAlone, counts, watch }: DecideOptions) {
  const digest = createDigest(config.identitySecret)
  const digests = new TextLru<string>()

  /** @throws {RequestError} */
  return async function decide(
    { domain, descriptors, hitsAddend }: RateLimitRequest,
    domains: Domains,
    context: CallContext,
  ): Promise<RateLimitResponse> {
    const findSource = watch?.start()
    if (domain === '') throw new RequestError('expected a domain that is not empty')
    if (descriptors.length === 0) throw new RequestError('expected at least one descriptor')
    const matches = descriptors.map((descriptor, index) =>
      explainAt(index, () => findRule(domains, domain, descriptor, config.onStoreError)),
    )
    const replaced = new Set(matches.flatMap((match) => match?.rule.replaces ?? []))
    const statuses: DescriptorStatus[] = matches.map(() => ({ code: 'OK' }))
    const questions: Question[] = []
    let isOver = false
    for (const [index, match] of matches.entries()) {
      if (!match) continue
      const { rule, metricKey } = match
      const descriptor = descriptors[index] as (typeof descriptors)[number]
      if (rule.limits === 'unlimited') {
        counts.record(domain, metricKey, { hits: countHits(descriptor, hitsAddend), isOver: false, rule })
        statuses[index] = { code: 'OK', limitRemaining: MAX_UINT32 }
      } else if (rule.name !== '' && replaced.has(rule.name)) continue
      else if (rule.limits === 'none') {
        counts.record(domain, metricKey, { hits: countHits(descriptor, hitsAddend), isOver: true, rule })
        isOver ||= !rule.isShadow
        statuses[index] = refuseAll(rule, now())
      } else {
        const hits = readHits(descriptor, hitsAddend, rule.limits, index)
        questions.push({ index, rule, metricKey, policy: rule.limits, charge: createCharge(match, rule.limits), hits })
      }
    }
    await reduceCounts(questions)
    const { answers, degraded, charges } = await (isEachAlone ? decideEach : decideTogether)(questions, isOver, context)
    for (const [at, question] of questions.entries()) {
      const { index, rule, metricKey, hits } = question
      const answer = answers[at] as Answer
      const isRefused = refuses(question, answer)
      isOver ||= isRefused
      const tightest = findTightest(answer)
      statuses[index] = toStatus(rule, isRefused, tightest)
      if (hits > 0) counts.record(domain, metricKey, { hits, isOver: answer.isFull, rule, tightest })
    }
    const limits = answers.flatMap((answer) => answer.limits)
    const headers = new Headers()
    setRateLimitHeaders(headers, { limits, ...(degraded && { degraded }) }, config.headerFormat, now)
    isOver &&= !config.isShadow
    const source = findSource?.(charges, degraded)
    if (source) {
      const waitsMs = limits.map(({ policy, retryAfterMs }) => (policy.mode === 'enforce' ? retryAfterMs : 0))
      const retryAfterMs = Math.max(0, ...waitsMs)
      const costs: Record<string, number> = {}
      for (const { policy, hits } of questions) costs[policy.name] = (costs[policy.name] ?? 0) + hits
      watch?.onDecision({
        outcome: !isOver ? 'admitted' : degraded === 'closed' ? 'unavailable' : 'limited',
        limits: limits.map(toLimitStatus),
        ...(isOver && retryAfterMs > 0 && { retryAfterMs }),
        ...(degraded && { degraded }),
        ...source,
        costs,
      })
    }
    return {
      overallCode: isOver ? 'OVER_LIMIT' : 'OK',
      statuses,
      responseHeadersToAdd: [...headers].map(([key, value]) => ({ key, value })),
    }
  }

  function createCharge({ identity }: RuleMatch, policy: CountingPolicy): Charge<CountingPolicy> {
    const { algorithm, limits, mode, burst } = policy
    // A log of short windows does not reach back far enough for long ones, so other windows count elsewhere.
    const parts = [limits.map(({ windowMs, calendar }) => calendar?.unit ?? windowMs).join(), ...identity]
    const text = JSON.stringify(parts)
    const known = digests.get(text)
    const found = known ?? digest(parts)
    if (known === undefined) digests.set(text, found)
    const key = formatKey(config.keyPrefix, KEY_NAME, ALGORITHMS[algorithm].letter, found)
    // Limits may change with the file and with overrides, while the count goes on.
    const plan = limits.map(({ limit }) => limit).join()
    return {
      ...{ policy, digest: found, key, algorithm, limits, cost: 1, mode, reserved: 0, plan },
      ...(burst !== undefined && { burst }),
    }
  }

  /**
   * Charges all descriptors or none: one that is over its limit costs the others nothing. What asks, gives back, or can
   * never fit is looked at before, by itself.
   */
  async function decideTogether(questions: readonly Question[], isRefused: boolean, context: CallContext) {
    // The same descriptor may come twice, and a key may not.
    const costs = new Map<string, number>()
    for (const { charge, hits } of questions) costs.set(charge.key, (costs.get(charge.key) ?? 0) + Math.max(0, hits))
    const fits = ({ charge, policy, hits }: Question) =>
      hits > 0 && (costs.get(charge.key) ?? 0) <= findMaxCost([policy])
    const decideGroup = async (action: 'take' | 'peek', group: readonly Question[]) => {
      const byKey = new Map(
        group.map((each) => {
          const { charge } = each
          return [charge.key, fits(each) ? { ...charge, cost: costs.get(charge.key) ?? 1 } : charge]
        }),
      )
      return byKey.size === 0 ? undefined : engine.decide([...byKey.values()], context, { action, permits: 1 })
    }
    const judge = (question: Question, decision: PolicyDecision | undefined): Answer => {
      const { hits } = question
      const limits = decision ? reportOf(decision, question.charge.key) : []
      const isFull = decision?.degraded === 'closed' || limits.some(({ retryAfterMs }) => retryAfterMs > 0)
      return { isFull: hits >= 0 && (isFull || (hits > 0 && !fits(question))), limits }
    }
    const others = questions.filter((each) => !fits(each))
    const looked = await decideGroup('peek', others)
    const isOver = isRefused || others.some((each) => refuses(each, judge(each, looked)))
    const taken = await decideGroup(isOver ? 'peek' : 'take', questions.filter(fits))
    const answers = questions.map((each) => judge(each, fits(each) ? taken : looked))
    const charges = [...(taken?.charges ?? []), ...(looked?.charges ?? [])]
    return { answers, degraded: taken?.degraded ?? looked?.degraded, charges }
  }

  /** Charges each descriptor as far as its hits fit; those that do not make it be over its limit. */
  async function decideEach(questions: readonly Question[], _isRefused: boolean, context: CallContext) {
    const decisions = await Promise.all(
      questions.map(({ charge, hits }) =>
        hits > 0
          ? engine.decide([charge], context, { action: 'take-up-to', permits: Math.min(hits, MAX_COST) })
          : engine.decide([charge], context, { action: 'peek', permits: 1 }),
      ),
    )
    const answers = questions.map(({ hits, charge }, at): Answer => {
      const decision = decisions[at] as PolicyDecision
      const isFull = hits >= 0 && decision.granted < Math.max(1, hits)
      return { isFull, limits: reportOf(decision, charge.key) }
    })
    const charges = decisions.flatMap((decision) => decision.charges)
    return { answers, degraded: decisions.find((decision) => decision.degraded)?.degraded, charges }
  }

  async function reduceCounts(questions: readonly Question[]): Promise<void> {
    const given = questions.filter(({ hits }) => hits < 0)
    if (given.length === 0) return
    const units = given.map(({ charge, hits }) => ({ charge: { ...charge, cost: -hits }, units: hits }))
    await engine.findStore(false).settle(units, now())
  }
}

function explainAt<Value>(index: number, work: () => Value): Value {
  try {
    return work()
  } catch (error) {
    if (!(error instanceof OptionError)) throw error
    throw new RequestError(`descriptors[${index}]: ${error.message}`)
  }
}

function refuses({ policy }: Question, { isFull }: Answer): boolean {
  return isFull && policy.mode === 'enforce'
}

/** @param hitsOfRequest 0 if they were not sent */
function countHits({ hitsAddend }: Pick<Descriptor, 'hitsAddend'>, hitsOfRequest: number): number {
  return hitsAddend?.value ?? Math.max(1, hitsOfRequest)
}

function readHits(
  { hitsAddend: own, isNegativeHits }: RateLimitRequest['descriptors'][number],
  hitsOfRequest: number,
  policy: CountingPolicy,
  index: number,
): number {
  const hits = countHits({ hitsAddend: own }, hitsOfRequest)
  if (!isNegativeHits) return hits
  if (canGiveBack(policy)) return -Math.min(hits, MAX_COST)
  const others = Object.entries(ALGORITHMS).flatMap(([name, { implementation }]) => (implementation.settle ? name : []))
  throw new RequestError(
    `descriptors[${index}]: ${policy.algorithm} cannot give back hits; expected an algorithm of ${others.join(', ')}`,
  )
}

function reportOf({ charges, usage }: PolicyDecision, key: string): readonly ReportedLimit<CountingPolicy>[] {
  const at = charges.findIndex((charge) => charge.key === key)
  const charge = charges[at]
  return charge ? reportLimits([charge], [usage[at] ?? []]) : []
}

/** The limit with the longest wait, else the one with the fewest units. */
function findTightest({ limits }: Answer): ReportedLimit<CountingPolicy> | undefined {
  return limits.toSorted((a, b) => b.retryAfterMs - a.retryAfterMs || a.remaining - b.remaining)[0]
}

function toStatus(rule: Rule, isOver: boolean, tightest: ReportedLimit<CountingPolicy> | undefined): DescriptorStatus {
  const code = isOver ? 'OVER_LIMIT' : 'OK'
  if (!tightest) return { code }
  const { limit, windowMs, calendar, remaining, resetMs, retryAfterMs } = tightest
  const unit = calendar ? undefined : UNIT_BY_WINDOW.get(windowMs)
  return {
    code,
    currentLimit: { name: rule.name, requestsPerUnit: limit, unit: unit ?? 'UNKNOWN' },
    limitRemaining: Math.min(remaining, MAX_UINT32),
    durationUntilReset: toDuration(isOver ? retryAfterMs : resetMs),
  }
}

const UNIT_BY_WINDOW = new Map(
  Object.entries(UNITS).map(([name, { windowMs }]) => [windowMs as number, name as Unit] as const),
)

/** The status of a limit of 0, which no wait helps against: the end of its window is told nevertheless. */
function refuseAll({ name, unit, isShadow }: Rule, nowMs: number): DescriptorStatus {
  const windowMs = unit === 'UNKNOWN' ? 1_000 : UNITS[unit].windowMs
  return {
    code: isShadow ? 'OK' : 'OVER_LIMIT',
    currentLimit: { name, requestsPerUnit: 0, unit },
    limitRemaining: 0,
    durationUntilReset: toDuration(windowMs - (nowMs % windowMs)),
  }
}

function toDuration(ms: number) {
  return { seconds: Math.floor(ms / 1_000), nanos: Math.round((ms % 1_000) * 1_000_000) }
}
