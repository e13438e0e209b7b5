import { ALGORITHMS } from '../algorithms/algorithm-table.ts'
import {
  checkAlgorithmOptions,
  formatLimitName,
  MAX_LOG_ENTRIES,
  readLimits,
  readPenalty,
} from '../algorithms/read-limits.ts'
import { type IsPassed, PASSED_EXPECTED } from '../http/forwarded-headers.ts'
import type { Limit, PenaltySettings } from '../model/limits.ts'
import { formatWindow, LIMITS_EXPECTED, parseLimits } from '../model/limits.ts'
import type { Cost, MissingIdentity, OnStoreError, Plans, PolicyLimit, RequestPolicy } from '../model/policy.ts'
import { type IdentitySource, PRIORITIES, type Priority } from '../model/policy.ts'
import { isFoldable, isInBody, parseHeaderSource } from '../request/identity/source.ts'
import { mayOverlap } from '../request/policy/pattern.ts'
import { OptionError } from './option-error.ts'
import { PLAN_EXPECTED, type PolicyTable } from './policy-keys.ts'
import { HEADER_EXPECTED, parseStatuses } from './values.ts'

/** What variables and options are called in messages. */
export interface Names {
  readonly limits: string
  readonly policies: string
  /** With the value that turns it on. */
  readonly shedding: string
}

/** What single variables, or options, set for all policies. */
export interface PolicyDefaults {
  readonly names: Names
  /** The name of the policy that limits alone make. */
  readonly name: string
  /** What is counted by where a policy does not say it. */
  readonly by: readonly IdentitySource[]
  /** What is folded of that. */
  readonly fold?: string | undefined
  /** Gives the cost if a policy does not; undefined: it is 1. */
  readonly cost: Extract<Cost, { kind: 'application' }>['tell'] | undefined
  readonly isShadow: boolean
  /** For a caller that lacks what a policy counts by. */
  readonly missing: MissingIdentity
  /** The same for policies that count by something in the body. */
  readonly missingInBody: MissingIdentity
  readonly onStoreError: OnStoreError
  /** Tells the headers that the API gets to see: no other identifies a caller to it, or names a cost. */
  readonly isPassed: IsPassed
}

export const DENY: MissingIdentity = { kind: 'deny', status: 401 }
const NO_RESERVE: Readonly<Record<Priority, number>> = { critical: 0, default: 0, sheddable: 0 }

/**
 * The policies that limits and tables make together, in the order in which they are asked.
 * @param limits of the policy that they make by themselves; `off`: there is none
 * @throws {OptionError} if they make no sense together
 */
export function makePolicies(
  limits: string,
  tables: readonly PolicyTable[] | undefined,
  defaults: PolicyDefaults,
  isShedding: boolean,
): readonly RequestPolicy[] {
  const { names } = defaults
  const policies = limits === 'off' ? [] : [defaultPolicy(limits, defaults)]
  for (const [index, table] of (tables ?? []).entries()) {
    if (policies.some(({ name }) => name === table.name)) {
      const isMade = limits !== 'off' && table.name === defaults.name
      const expected = isMade ? `another name: ${names.limits} makes "${table.name}"` : 'a name used once'
      throw new OptionError([names.policies, index, 'name'], expected, table.name)
    }
    policies.push(tablePolicy(table, index, defaults))
  }
  refuseUnlimited(policies, tables, names, isShedding)
  // Policies that count new identities come after those that tell who is new.
  return [
    ...policies.filter(({ counts }) => counts === 'requests'),
    ...policies.filter(({ counts }) => counts !== 'requests'),
  ]
}

/** @throws {OptionError} if policies look like limits, and none could ever be charged */
function refuseUnlimited(
  policies: readonly RequestPolicy[],
  tables: readonly PolicyTable[] | undefined,
  names: Names,
  isShedding: boolean,
): void {
  if (!isShedding && policies.every(({ tiers }) => tiers.length === 0)) {
    throw new OptionError(
      names.policies,
      `at least one policy with limits (or ${names.limits}, or ${names.shedding})`,
      policies.map(({ name }) => name),
    )
  }
  const index = policies.findIndex((policy) => policy.counts === 'identities' && !policies.some(tellsNew(policy)))
  if (index < 0) return
  const name = policies[index]?.name
  throw new OptionError(
    [names.policies, tables?.findIndex((table) => table.name === name) ?? 0, 'counts'],
    'a "sliding-window" policy beside it that tells callers apart, and applies to some of the same requests',
    'identities',
  )
}

/** Whether a policy can tell, for some request that another one applies to, that its identity is new. */
function tellsNew({ match }: RequestPolicy): (other: RequestPolicy) => boolean {
  return ({ counts, algorithm, tiers, by, match: others }) =>
    counts === 'requests' &&
    ALGORITHMS[algorithm].tellsNewIdentities === true &&
    tiers.length > 0 &&
    by.some(({ kind }) => kind !== 'global' && kind !== 'route') &&
    (!match || !others || match.some((pattern) => others.some((other) => mayOverlap(pattern, other))))
}

/**
 * The policy that limits alone make, `default` in the gateway.
 * @throws {OptionError} if the log of one caller could become huge
 */
function defaultPolicy(limits: string, defaults: PolicyDefaults): RequestPolicy {
  const { names, name } = defaults
  const largest = parseLimits(limits)?.find(({ limit }) => limit > MAX_LOG_ENTRIES)
  if (largest) {
    throw new OptionError(
      names.limits,
      `limits up to ${MAX_LOG_ENTRIES} (for more, a policy with algorithm = "quota", or exact = true, in ${names.policies})`,
      `${largest.limit}/${formatWindow(largest.windowMs)}`,
    )
  }
  const table = {
    name,
    limits,
    algorithm: 'sliding-window',
    ignore_case: true,
    counts: 'requests',
    exact: false,
  } as const
  return tablePolicy(table, 0, defaults)
}

/**
 * One policy of POLICIES. Nothing is guessed: keys that make no sense together are refused.
 * @throws {OptionError} naming the key to fix
 */
function tablePolicy(table: PolicyTable, index: number, defaults: PolicyDefaults): RequestPolicy {
  const { name, algorithm, by = defaults.by, match, priority, counts } = table
  const { names } = defaults
  const fail: Fail = (key, expected, value = table[key]) => {
    throw new OptionError([names.policies, index, key], expected, value)
  }
  // MODE=shadow refuses nothing, whatever a policy says of itself.
  const enforced = !defaults.isShadow && table.mode !== 'shadow'
  const hidden = by?.find((source) => source.kind === 'header' && !defaults.isPassed(source.name))
  if (hidden?.kind === 'header') fail('by', PASSED_EXPECTED, `header:${hidden.name}`)
  const plans = readPlans(table, fail, (plan, expected) => {
    throw new OptionError([names.policies, index, 'limits', plan[0]], expected, plan[1])
  })
  const tiers =
    plans?.limits[plans.byDefault]?.tiers ?? readPolicyLimits(table, table.limits as string | undefined, fail)
  const allTiers = plans ? Object.values(plans.limits).flatMap((limits) => limits.tiers) : tiers
  const smallest = Math.min(...allTiers.map(({ limit }) => limit), table.burst ?? Number.POSITIVE_INFINITY)
  const cost = readCost(table, defaults.isPassed, fail)
  const dearest = cost.kind === 'fixed' ? cost.units : cost.max
  const dearestKey = cost.kind === 'fixed' ? 'cost' : 'max_cost'
  if (dearest > smallest) fail(dearestKey, `at most the smallest limit of the policy, ${smallest}`)

  if (table.counts === 'identities' && !ALGORITHMS[algorithm].tellsNewIdentities) {
    fail('counts', 'algorithm = "sliding-window" with "identities"')
  }
  const reserved = readReserve(table, tiers, fail)
  if (dearest > smallest - reserved.sheddable)
    fail('reserve', `shares that leave room for a request of cost ${dearest}`)
  if (table.fold !== undefined && !by.some(isFoldable)) fail('fold', FOLD_EXPECTED)
  const isUnits = counts !== 'identities' && !ALGORITHMS[algorithm].holdsSlots
  return {
    name,
    algorithm,
    tiers,
    by,
    fold: table.fold ?? (table.by ? undefined : defaults.fold),
    match,
    ignoresCase: table.ignore_case,
    cost: (table.cost === undefined && isUnits && createCustomCost(defaults, smallest - reserved.sheddable)) || cost,
    // Who could choose to be counted by address would have a limit for each address that it comes from.
    missing: table.missing ?? (by.some(isInBody) ? defaults.missingInBody : defaults.missing),
    burst: readBurst(table, tiers),
    plans,
    priority,
    reserved,
    settleHeader: readSettleHeader(table, fail),
    onStoreError: table.on_store_error ?? defaults.onStoreError,
    counts,
    failures: readFailures(table, tiers, fail),
    block: readPolicyPenalty(table, tiers, fail),
    enforced,
  }
}

export const FOLD_EXPECTED = 'by "header:", "query:", "form:", "cookie:", "json:" or "claim:" with it'

type Fail = (key: keyof PolicyTable, expected: string, value?: unknown) => never

type FailPlan = (plan: readonly [name: string, limits: string], expected: string) => never

/** Limits by plan. All plans have the same windows: what is counted then means the same to each, whoever changes plans. */
function readPlans(table: PolicyTable, fail: Fail, failPlan: FailPlan): Plans | undefined {
  const { limits, plan: source, default_plan: byDefault, reserve } = table
  if (typeof limits !== 'object') {
    if (source) fail('plan', 'limits as a table by plan with it')
    if (byDefault !== undefined) fail('default_plan', 'limits as a table by plan with it')
    return undefined
  }
  const entries = Object.entries(limits)
  if (entries.length === 0) fail('limits', LIMITS_EXPECTED)
  if (!source) return fail('plan', PLAN_EXPECTED)
  if (byDefault === undefined || !Object.hasOwn(limits, byDefault)) {
    return fail('default_plan', `one of ${entries.map(([name]) => `"${name}"`).join(', ')}`)
  }
  if (reserve) fail('reserve', 'limits without plans with it')
  const windowsOf = (tiers: readonly Limit[]) => tiers.map(({ windowMs }) => windowMs).join()
  let windows: string | undefined
  const made = entries.map((entry) => {
    const failHere: Fail = (key, expected) => (key === 'limits' ? failPlan(entry, expected) : fail(key, expected))
    const tiers = readPolicyLimits(table, entry[1], failHere)
    windows ??= windowsOf(tiers)
    if (windowsOf(tiers) !== windows) failPlan(entry, 'the same windows in every plan')
    return [entry[0], { tiers, burst: readBurst(table, tiers) }] as const
  })
  return { source, byDefault, limits: Object.fromEntries(made) }
}

function readBurst({ algorithm, burst }: PolicyTable, [tier]: readonly Limit[]): number | undefined {
  return ALGORITHMS[algorithm].hasBurst ? (burst ?? tier?.limit) : undefined
}

function readPolicyLimits(table: PolicyTable, limits: string | undefined, fail: Fail): readonly PolicyLimit[] {
  const { name, algorithm } = table
  checkAlgorithmOptions(table, fail)
  if (limits !== undefined) {
    const tiers = readLimits({ ...table, limits }, fail)
    return tiers.map((tier) => ({ ...tier, name: formatLimitName(name, algorithm, tier) }))
  }
  return table.priority === undefined ? fail('limits', `${LIMITS_EXPECTED}; or else a priority`) : []
}

/** @param max more than this would never fit */
function createCustomCost({ cost: tell }: PolicyDefaults, max: number): Cost | undefined {
  return tell && { kind: 'application', tell, max }
}

function readCost({ cost = 1, max_cost }: PolicyTable, isPassed: IsPassed, fail: Fail): Cost {
  if (typeof cost === 'number') {
    if (max_cost !== undefined) fail('max_cost', 'cost = "header:<name>" with it')
    return { kind: 'fixed', units: cost }
  }
  if (!isPassed(cost.header)) fail('cost', PASSED_EXPECTED, `header:${cost.header}`)
  return {
    kind: 'header',
    name: cost.header,
    max: max_cost ?? fail('max_cost', 'the highest cost that a request may name'),
  }
}

/** A class must leave the shares of all classes above it, but not its own. */
function readReserve({ reserve }: PolicyTable, tiers: readonly PolicyLimit[], fail: Fail): RequestPolicy['reserved'] {
  if (!reserve) return NO_RESERVE
  const [tier, ...others] = tiers
  if (!tier || others.length > 0) return fail('reserve', 'limits of one tier with it')
  let reserved = 0
  const left: Record<Priority, number> = { ...NO_RESERVE }
  for (const priority of PRIORITIES) {
    left[priority] = reserved
    if (priority !== 'sheddable') reserved += Math.ceil(tier.limit * (reserve[priority] ?? 0))
  }
  return left
}

function readFailures(
  { algorithm, counts, failures, reserve, settle }: PolicyTable,
  tiers: readonly Limit[],
  fail: Fail,
) {
  if (counts !== 'failures') {
    if (failures !== undefined) fail('failures', 'counts = "failures" with it')
    return []
  }
  if (ALGORITHMS[algorithm].holdsSlots) fail('counts', '"requests" with algorithm = "concurrency"')
  if (tiers.length === 0) fail('limits', LIMITS_EXPECTED)
  if (reserve) fail('reserve', 'counts = "requests" with it')
  if (settle) fail('settle', 'counts = "requests" with it')
  return failures ?? parseStatuses('4xx') ?? []
}

function readPolicyPenalty(table: PolicyTable, tiers: readonly Limit[], fail: Fail): PenaltySettings | undefined {
  if (table.block !== undefined && tiers.length === 0) fail('limits', LIMITS_EXPECTED)
  return readPenalty(table, fail)
}

function readSettleHeader({ algorithm, settle }: PolicyTable, fail: Fail): string | undefined {
  if (settle === undefined) return undefined
  if (!ALGORITHMS[algorithm].implementation.settle) {
    fail('settle', 'algorithm = "token-bucket", "fixed-window" or "quota" with it: a log cannot be rewritten')
  }
  return parseHeaderSource(settle) ?? fail('settle', HEADER_EXPECTED)
}
