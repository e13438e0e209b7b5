/** Makes policies of their tables, and checks what they mean together. */
import { ALGORITHMS, holdsSlots } from '../../core/algorithms/algorithm-table.ts'
import { countsNewIdentities } from '../../core/algorithms/decide.ts'
import { type CostTerm, isMeasure } from '../../core/model/cost.ts'
import { formatSource, type IdentitySource, isFoldable, isInBody, isShared } from '../../core/model/identity-source.ts'
import { COUNTS, type Counts, countsEveryRequest, LIMITS_EXPECTED } from '../../core/model/limits.ts'
import {
  type Cost,
  type IsFailure,
  isEnforced,
  joinModes,
  type MissingIdentity,
  type OnStoreError,
  type Plans,
  type PolicyLimit,
  type PolicyMode,
  type RequestPolicy,
} from '../../core/model/policy.ts'
import { OptionError } from '../../core/options/option-error.ts'
import type { OptionName, OwnOptions } from '../../core/options/policy-options.ts'
import { type ReadCalendarLimits, readLimits, readPenalty } from '../../core/options/read-limits.ts'
import { readValues } from '../../core/options/readers.ts'
import { mayOverlap } from '../request/policy/pattern.ts'
import { type IsPassed, PASSED_EXPECTED } from '../response/forwarded-headers.ts'
import { PLAN_EXPECTED, type PolicyTable, policyKeys } from './policy-keys.ts'
import { parseStatuses } from './values.ts'

export type JwtValues = { readonly [Key in 'jwksUrl' | 'secret' | 'issuer' | 'audience']?: string | undefined }

/** The variables or options, as messages name them; `by` is the one for policies that have no `by` of their own. */
export type Names = Readonly<Record<'limits' | 'policies' | 'shedding' | 'by', string>> & {
  readonly jwt: (key: keyof JwtValues) => string
}

export interface PolicyDefaults {
  readonly names: Names
  /** Names the policy that is made from limits alone. */
  readonly name: string
  readonly by: readonly IdentitySource[]
  readonly fold?: string | undefined
  /** Undefined: the cost is 1. */
  readonly cost: Extract<Cost, { kind: 'application' }>['tell'] | undefined
  /** Tells the plan, for policies that have no `plan` of their own. */
  readonly plan?: IdentitySource | undefined
  /** The plan of limits that are given in addition to plans. */
  readonly byDefault?: string | undefined
  /** Tells for policies without `failures` of their own which responses fail. */
  readonly isFailure?: IsFailure | undefined
  readonly mode: PolicyMode
  readonly anonymous: MissingIdentity
  readonly anonymousInBody: MissingIdentity
  readonly onStoreError: OnStoreError
  /** Accepts the headers that the API gets to see: no other identifies a caller to it, or names a cost. */
  readonly isPassed: IsPassed
  readonly readCalendarLimits: ReadCalendarLimits | undefined
}

export const DENY: MissingIdentity = { kind: 'deny', status: 401 }
const NO_RESERVE: RequestPolicy['reserved'] = { critical: 0, default: 0, sheddable: 0 }

/**
 * Makes all policies, in the order in which they are evaluated.
 * @param limits those of the default policy, maybe by plan; `off`: there is none
 * @throws {OptionError} if the policies contradict each other
 */
export function createPolicies(
  limits: NonNullable<PolicyTable['limits']>,
  tables: readonly PolicyTable[] | undefined,
  defaults: PolicyDefaults,
  isShedding: boolean,
): readonly RequestPolicy[] {
  const { names, name, byDefault } = defaults
  const own = () => readValues(policyKeys, { name, limits, default_plan: byDefault })
  const policies = limits === 'off' ? [] : [createPolicy(own(), undefined, defaults)]
  for (const [index, table] of (tables ?? []).entries()) {
    if (policies.some(({ name }) => name === table.name)) {
      const isMade = limits !== 'off' && table.name === defaults.name
      const expected = isMade ? `another name: ${names.limits} makes "${table.name}"` : 'a name used once'
      throw new OptionError([names.policies, index, 'name'], expected, table.name)
    }
    policies.push(createPolicy(table, index, defaults))
  }
  if (!isShedding && policies.every(({ limits }) => limits.length === 0)) {
    const expected = `at least one policy with limits (or ${names.limits}, or ${names.shedding})`
    const without = policies.map(({ name }) => name)
    throw new OptionError(names.policies, expected, without)
  }
  const undetected = policies.find((policy) => countsNewIdentities(policy) && !policies.some(detectsNew(policy.match)))
  if (undetected) {
    const expected =
      'a "sliding-window" policy beside it that tells callers apart, and applies to some of the same requests'
    const index = tables?.findIndex(({ name }) => name === undetected.name) ?? 0
    throw new OptionError([names.policies, index, 'counts'], expected, undetected.counts)
  }
  return sortPolicies(policies)
}

/**
 * Policies that count new identities come after those that detect them. A policy that is tried in shadow mode has seen no
 * identity yet: so that nothing is refused for it, it comes after those that count what enforced policies detect.
 */
function sortPolicies(policies: readonly RequestPolicy[]): readonly RequestPolicy[] {
  const enforced = policies.filter(isEnforced)
  const counting = enforced.filter((policy) => countsNewIdentities(policy) && enforced.some(detectsNew(policy.match)))
  const rank = (policy: RequestPolicy) => {
    if (!countsEveryRequest(policy.counts)) return counting.includes(policy) ? 1 : 3
    return !isEnforced(policy) && counting.length > 0 ? 2 : 0
  }
  return policies.toSorted((a, b) => rank(a) - rank(b))
}

/** Creates the test for policies that detect new identities in some of the requests that match. */
function detectsNew(match: RequestPolicy['match']): (other: RequestPolicy) => boolean {
  return ({ counts, algorithm, limits, by, match: others }) =>
    countsEveryRequest(counts) &&
    ALGORITHMS[algorithm].detectsNewIdentities === true &&
    limits.length > 0 &&
    !isShared(by) &&
    (!match || !others || match.some((pattern) => others.some((other) => mayOverlap(pattern, other))))
}

/** @throws {OptionError} that names the key to fix, if keys contradict each other: nothing is guessed */
function createPolicy(table: PolicyTable, index: number | undefined, defaults: PolicyDefaults): RequestPolicy {
  const { name, algorithm, by = defaults.by, match, priority, counts } = table
  const { detectsNewIdentities, implementation } = ALGORITHMS[algorithm]
  const isOfSlots = holdsSlots(table)
  const fail: FailPolicy = (option, expected, value, plan = []) => {
    const key = option.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`) as keyof PolicyTable
    const where =
      index === undefined
        ? [plan[0] ? 'plans' : defaults.names.limits, ...plan]
        : [defaults.names.policies, index, key, ...plan]
    throw new OptionError(where, expected, value ?? table[key])
  }
  const mode = joinModes(defaults.mode, table.mode)
  const hidden = by.find((source) => source.kind === 'header' && !defaults.isPassed(source.name))
  if (hidden?.kind === 'header') fail('by', PASSED_EXPECTED, `header:${hidden.name}`)
  const plans = readPlans(table, defaults, fail)
  const { limits, burst } =
    plans?.limits[plans.byDefault] ?? readPolicyLimits(table, table.limits as string | undefined, defaults, fail)
  const allLimits = plans ? Object.values(plans.limits).flatMap((plan) => plan.limits) : limits
  const smallest = Math.min(...allLimits.map(({ limit }) => limit), table.burst ?? Number.POSITIVE_INFINITY)
  const cost = createCost(table, defaults.isPassed, fail)
  const [costKey, highestCost] =
    cost.kind === 'fixed' ? (['cost', cost.units] as const) : (['max_cost', cost.max] as const)
  if (highestCost > smallest) fail(costKey, `at most the smallest limit of the policy, ${smallest}`)
  const canGiveBack = implementation.settle !== undefined
  if (cost.kind === 'size' && !(table.actual_cost && canGiveBack))
    fail('cost', 'actual_cost with it, and an algorithm that gives back what was too much', 'bytes:request')
  const { needsNewIdentity, isChargedLater } = COUNTS[counts]
  if (needsNewIdentity && !detectsNewIdentities) fail('counts', `algorithm = "sliding-window" with "${counts}"`)
  const reserved = readReserve(table, limits, fail)
  if (highestCost > smallest - reserved.sheddable)
    fail('reserve', `shares that leave room for a request of cost ${highestCost}`)
  if (table.fold !== undefined && !by.some(isFoldable)) fail('fold', FOLD_EXPECTED)
  if (table.actual_cost && !canGiveBack && !detectsNewIdentities) {
    fail(
      'actual_cost',
      'an algorithm other than "sorted-set" and "concurrency" with it',
      table.actual_cost.map(formatCostTerm).join(' + '),
    )
  }
  const mayBeUntold = table.actual_cost?.some((term) => !isMeasure(term)) === true
  if (mayBeUntold && table.untold === undefined) {
    fail(
      'untold',
      'the units of a request whose response does not tell what it costs, such as 1000 or "bytes/4" (0: free)',
    )
  }
  if (!mayBeUntold && table.untold !== undefined) fail('untold', 'actual_cost of "header:" or "json:" with it')
  if (table.on_disconnect === 'abort' && !table.actual_cost) fail('on_disconnect', 'actual_cost with it')
  if (isChargedLater) {
    if (isOfSlots) fail('counts', '"requests" with algorithm = "concurrency"')
    if (table.reserve) fail('reserve', 'counts = "requests" with it')
  }
  const failing = FAILING[counts]
  if (failing === undefined && table.failures !== undefined)
    fail('failures', 'counts = "failures" or "successes" with it')
  if ((isChargedLater || table.penalty !== undefined || table.refusal) && limits.length === 0)
    fail('limits', LIMITS_EXPECTED)
  const { cost: tell } = defaults
  const isCustomCost = table.cost === undefined && !needsNewIdentity && !isOfSlots
  return {
    name,
    algorithm,
    limits,
    by,
    fold: table.fold ?? (table.by ? undefined : defaults.fold),
    match,
    ignoresCase: table.ignore_case,
    cost: isCustomCost && tell ? { kind: 'application', tell, max: smallest - reserved.sheddable } : cost,
    // A caller that could choose to be counted by address would have a limit for each of its addresses.
    anonymous: table.anonymous ?? (by.some(isInBody) ? defaults.anonymousInBody : defaults.anonymous),
    burst,
    plans,
    priority,
    reserved,
    actualCost: table.actual_cost,
    untold: table.untold,
    onDisconnect: table.on_disconnect,
    onStoreError: table.on_store_error ?? defaults.onStoreError,
    counts,
    failures:
      failing === undefined
        ? []
        : (table.failures ?? defaults.isFailure ?? failing.flatMap((text) => parseStatuses(text) ?? [])),
    penalty: readPenalty(toOptions(table), limits, fail),
    refusal: table.refusal,
    mode,
  }
}

/** The statuses that fail by default, where it matters whether a response does. */
const FAILING: { readonly [Name in Counts]?: readonly string[] } = {
  failures: ['4xx'],
  successes: ['4xx', '429', '5xx'],
}

export function formatCostTerm(term: CostTerm): string {
  return 'name' in term ? `${term.kind}:${term.name}` : term.kind
}

export const FOLD_EXPECTED = 'by "header:", "query:", "form:", "cookie:", "json:" or "claim:" with it'

type FailPolicy = (
  key: keyof PolicyTable | OptionName,
  expected: string,
  value?: unknown,
  plan?: readonly string[],
) => never

/** Options have names with capitals in place of underscores. */
function toOptions(
  table: PolicyTable,
): Pick<PolicyTable, 'name' | 'algorithm'> & { readonly [Name in OptionName]: OwnOptions[Name] } {
  const { name, algorithm, burst, starts, penalty } = table
  const { slot_ttl: slotTtl, allow_large_log: allowLargeLog, penalty_after: penaltyAfter, time_zone: timeZone } = table
  return { name, algorithm, burst, starts, penalty, slotTtl, allowLargeLog, penaltyAfter, timeZone }
}

function readPlans(table: PolicyTable, defaults: PolicyDefaults, fail: FailPolicy): Plans | undefined {
  if (typeof table.limits === 'object') return readLimitsByPlan(table, table.limits, defaults, fail)
  if (table.plan) fail('plan', 'limits as a table by plan with it', formatSource(table.plan))
  if (table.default_plan !== undefined) fail('default_plan', 'limits as a table by plan with it')
  return undefined
}

/** All plans have the same windows: a count then means the same in each, also for a caller that changes plans. */
function readLimitsByPlan(
  table: PolicyTable,
  byPlan: Readonly<Record<string, string>>,
  defaults: PolicyDefaults,
  fail: FailPolicy,
): Plans {
  const { plan: source = defaults.plan, default_plan: byDefault, reserve } = table
  const entries = Object.entries(byPlan)
  if (entries.length === 0) fail('limits', LIMITS_EXPECTED)
  if (!source) return fail('plan', PLAN_EXPECTED)
  if (byDefault === undefined || !Object.hasOwn(byPlan, byDefault)) {
    return fail('default_plan', `one of ${entries.map(([name]) => `"${name}"`).join(', ')}`)
  }
  if (reserve) fail('reserve', 'limits without plans with it')
  let windows: string | undefined
  const plans = entries.map(([plan, text]) => {
    const read = readPolicyLimits(table, text, defaults, (key, expected) =>
      key === 'limits' ? fail(key, expected, text, [plan]) : fail(key, expected),
    )
    const names = read.limits.map(({ name }) => name).join()
    windows ??= names
    if (names !== windows) fail('limits', 'the same windows in every plan', text, [plan])
    return [plan, read] as const
  })
  return { source, byDefault, limits: Object.fromEntries(plans) }
}

function readPolicyLimits(
  table: PolicyTable,
  text: string | undefined,
  { readCalendarLimits }: PolicyDefaults,
  fail: FailPolicy,
) {
  const read = readLimits({ ...toOptions(table), limits: text }, fail, readCalendarLimits)
  if (text === undefined && table.priority === undefined) fail('limits', `${LIMITS_EXPECTED}; or else a priority`)
  return read
}

function createCost({ cost = 1, max_cost }: PolicyTable, isPassed: IsPassed, fail: FailPolicy): Cost {
  if (typeof cost === 'number') {
    if (max_cost !== undefined) fail('max_cost', 'cost = "header:<name>" or "bytes:request/…" with it')
    return { kind: 'fixed', units: cost }
  }
  if (cost.kind === 'header' && !isPassed(cost.name)) fail('cost', PASSED_EXPECTED, `header:${cost.name}`)
  const max = max_cost ?? fail('max_cost', 'the highest cost that a request may name')
  return { ...cost, max }
}

/** A priority leaves the shares of all higher ones, but not its own. */
function readReserve(
  { reserve }: PolicyTable,
  limits: readonly PolicyLimit[],
  fail: FailPolicy,
): RequestPolicy['reserved'] {
  if (!reserve) return NO_RESERVE
  const [limit, ...others] = limits
  if (!limit || others.length > 0) return fail('reserve', 'one limit with it')
  const critical = Math.ceil(limit.limit * (reserve.critical ?? 0))
  return { critical: 0, default: critical, sheddable: critical + Math.ceil(limit.limit * (reserve.default ?? 0)) }
}
