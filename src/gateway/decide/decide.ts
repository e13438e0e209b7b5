/** Decides charges that other programs ask for. */
import * as v from 'valibot'
import { holdsSlots } from '../../core/algorithms/algorithm-table.ts'
import { countsNewIdentities } from '../../core/algorithms/decide.ts'
import { applyActualCosts } from '../../core/engine/apply-actual-costs.ts'
import { type Charge, formatPlanName } from '../../core/model/charge.ts'
import { ALGORITHM_NAMES } from '../../core/model/limits.ts'
import { ON_STORE_ERROR, POLICY_MODES, type Policy, type RequestPolicy } from '../../core/model/policy.ts'
import { OptionError } from '../../core/options/option-error.ts'
import { integer, MAX_COST, read } from '../../core/options/readers.ts'
import type { Config } from '../../http/config/load-config.ts'
import { canonicalizeCredential } from '../../http/request/identity/authorization.ts'
import { createProblemResponse } from '../../http/response/problem.ts'
import { createPolicyCharge, type Identity } from '../../library/charge-builder.ts'
import { toOutcome } from '../../library/decision.ts'
import { findMaxCost, type PolicyOptions, readPolicy } from '../../library/policies.ts'
import { toProblem } from '../admin/operation.ts'
import type { ApiOperation } from '../api/operation.ts'
import { InputError, OperationError, toPointer } from '../api/operation.ts'
import { readInput, readJson } from '../api/read-input.ts'
import type { RouteHandler } from '../api/route.ts'
import { HEADERS } from '../api/route.ts'
import { describe, units } from '../api/schema.ts'
import type { GatewayContext } from '../app/app.ts'
import type { LiveRulesEngine } from '../rules/live-rules-engine.ts'

/** A decision of more would keep the store from others for too long. */
const MAX_CHARGES = 50
/** Names the policy of limits that come with the question. */
const NAME = 'decide'

const text = v.string()
const count = v.pipe(v.number(), v.integer(), v.minValue(1))
const common = {
  identity: describe(
    v.union([text, v.pipe(v.array(text), v.minLength(1))]),
    'Who is counted. Requests are counted by ["token", …] or ["ip", …], of IPv6 by networks such as "2001:db8::/64".',
  ),
  cost: describe(v.optional(count, 1), 'Units, at most the smallest limit.'),
}
const named = v.strictObject({
  policy: describe(text, 'A policy of the configuration.'),
  plan: describe(v.optional(text), 'Of the policy, if its limits go by plan.'),
  ...common,
})
/** Slots could not be given back, windows of the calendar go by UTC, and a question is about one plan. */
type LeftOut = 'slotTtl' | 'timeZone' | 'starts' | 'plans'
const ownPolicy = {
  limits: describe(text, 'Such as `10/1s, 120/1m`. Other limits have other counts.'),
  name: v.optional(text, NAME),
  algorithm: v.optional(
    v.picklist(ALGORITHM_NAMES.filter((algorithm) => !holdsSlots({ algorithm }))),
    'sliding-window',
  ),
  burst: v.optional(count),
  allowLargeLog: v.optional(v.boolean()),
  mode: v.optional(v.picklist(POLICY_MODES)),
  onStoreError: v.optional(v.picklist(ON_STORE_ERROR)),
  penalty: v.optional(text),
  penaltyAfter: v.optional(count),
} satisfies Readonly<Record<Exclude<keyof PolicyOptions, LeftOut>, unknown>>
const own = v.strictObject({ ...ownPolicy, ...common })
const how = {
  action: v.optional(v.picklist(['take', 'take-up-to', 'peek', 'settle']), 'take'),
  permits: describe(v.optional(count), 'With `take-up-to`: how many are wanted, each at the cost.'),
  actual: describe(
    v.optional(units),
    'With `settle`: units that it has really cost, in place of the cost that was taken.',
  ),
  decidedAtMs: describe(v.optional(units), 'With `settle`: when it was taken, by the answer.'),
}

/** A policy with the limits of one plan, by whose name remembered statuses are told apart. */
type PlannedPolicy = Policy & { readonly plan?: string }

type Question = (v.InferOutput<typeof named> & { readonly limits?: never }) | v.InferOutput<typeof own>

const limit = v.strictObject({
  policy: text,
  name: text,
  ...{ limit: units, windowMs: units, remaining: units, resetMs: units, retryAfterMs: units },
  penaltyMs: v.optional(units),
  charge: describe(v.optional(units), 'Index of the charge, in a list.'),
})

export const DECIDE: ApiOperation = {
  method: 'POST',
  path: '/decide',
  summary: 'Decide: all charges, or none',
  body: v.union([
    v.strictObject({ ...named.entries, ...how }),
    v.strictObject({ ...own.entries, ...how }),
    v.strictObject({ charges: describe(v.array(v.union([named, own])), `1 to ${MAX_CHARGES}.`), ...how }),
  ]),
  answer: v.strictObject({
    granted: describe(v.union([v.boolean(), units]), 'Of `take-up-to`: how many.'),
    limits: describe(v.array(limit), 'Of a refusal that was remembered, only those that refused.'),
    retryAfterMs: describe(units, 'Until the same is granted if nobody else spends; 0 if anything was granted.'),
    decidedAtMs: describe(units, "By the store's clock, in milliseconds since the Unix epoch."),
    degraded: describe(v.optional(text), 'The fallback that has decided, while the store gives no answer.'),
  }),
}

export function createDecisionHandler(
  { keyPrefix, identitySecret: secret, policies: deployed }: Config,
  { engine, rulesEngine, watch }: GatewayContext,
): RouteHandler {
  return async function decide(request, _target, context) {
    try {
      const {
        action: requestedAction,
        permits = 1,
        actual,
        decidedAtMs,
        questions,
      } = readQuestions(await readJson(request))
      const active = (await rulesEngine?.readActivePolicies({ request, context })) ?? {
        policies: deployed,
        edition: undefined,
      }
      const charges = questions.map(({ path, question }) => createCharge(path, question, active))
      if (new Set(charges.map(({ key }) => key)).size < charges.length) {
        throw new InputError(['charges'], 'expected each policy once for an identity')
      }
      if (actual !== undefined && decidedAtMs !== undefined) {
        const differences = charges.map((charge) => ({ charge, units: actual - charge.cost }))
        const chargedIn = engine.findStore(false)
        await applyActualCosts(engine, differences, { nowMs: decidedAtMs, chargedIn }, context)
      }
      const action = requestedAction === 'settle' ? 'peek' : requestedAction
      const findSource = requestedAction === 'settle' ? undefined : watch?.start()
      const decision = await engine.decide(charges, context, { action, permits })
      const { limits, retryAfterMs, decidedAtMs: nowMs, degraded } = toOutcome(decision, 0)
      const outcome = { limits, retryAfterMs, decidedAtMs: nowMs, ...(degraded && { degraded }) }
      const source = findSource?.(charges, degraded)
      if (source) watch?.onDecision({ action, permits, granted: decision.granted, ...outcome, ...source })
      // Of a refusal that was remembered, only the charges that refused are known.
      const indexes = decision.usage.flatMap((states, index) => states.map(() => index))
      const isList = questions[0]?.path.length !== 0
      const reported = isList ? limits.map((each, at) => ({ ...each, charge: indexes[at] })) : limits
      const granted = action === 'take-up-to' ? decision.granted : decision.granted > 0
      return Response.json({ granted, ...outcome, limits: reported }, { headers: HEADERS })
    } catch (error) {
      return createProblemResponse(toProblem(error))
    }
  }

  function createCharge(path: readonly string[], question: Question, { policies, edition }: ActivePolicies): Charge {
    const { identity, cost } = question
    return toInputProblem(path, () => {
      const isNamed = 'policy' in question
      const { plan, ...policy } = isNamed ? findPolicy(question, policies, path) : createPolicy(question)
      read(integer(1, findMaxCost([policy])), cost, 'cost')
      const counted = isNamed ? canonicalize(identity) : scope(policy, identity)
      const charge = createPolicyCharge(policy, { keyPrefix, secret }, counted, cost)
      const name = isNamed ? formatPlanName(edition, plan) : undefined
      return name === undefined ? charge : { ...charge, plan: name }
    })
  }

  function createPolicy({ identity: _, cost: __, ...options }: v.InferOutput<typeof own>): PlannedPolicy {
    if (deployed.some(({ name }) => name === options.name)) {
      throw new OptionError('name', 'a name that no policy of the configuration has', options.name)
    }
    return readPolicy(options, '', 'local')
  }
}

type ActivePolicies = Awaited<ReturnType<LiveRulesEngine['readActivePolicies']>>

/** Requests are counted by one spelling of their credential. */
function canonicalize(identity: Identity): Identity {
  if (typeof identity === 'string') return identity
  const isToken = (at: number) => at % 2 === 1 && identity[at - 1] === 'token'
  return identity.map((part, at) => (isToken(at) ? (canonicalizeCredential(part, false) ?? part) : part))
}

/** Other limits count in other keys: in one, the log of a short window would not reach back far enough for a long one. */
function scope({ algorithm, limits, burst = 0 }: Policy, identity: Identity): Identity {
  const windows = limits.map(({ limit, windowMs, calendar }) => `${limit}/${calendar?.unit ?? windowMs}`)
  return ['limits', algorithm, windows.join(), `${burst}`, ...(typeof identity === 'string' ? [identity] : identity)]
}

function findPolicy(
  { policy: name, plan }: v.InferOutput<typeof named>,
  policies: readonly RequestPolicy[],
  path: readonly string[],
): PlannedPolicy {
  const decidable = policies.filter(isDecidable)
  const policy = decidable.find((each) => each.name === name)
  if (!policy) {
    const names = decidable.map((each) => each.name).join(', ')
    const expected = `expected one of the policies with limits, but no slots and no new identities: ${names}`
    throw new InputError([...path, 'policy'], expected)
  }
  const { plans } = policy
  if (!plans && plan === undefined) return policy
  const known = plans && Object.keys(plans.limits)
  if (plan !== undefined && !known?.includes(plan))
    throw new InputError([...path, 'plan'], 'expected a plan of the policy')
  const chosen = plan ?? plans?.byDefault ?? ''
  return { ...policy, ...plans?.limits[chosen], plan: chosen }
}

/** Slots could not be given back, and identities are new only to another policy of the same decision. */
function isDecidable(policy: RequestPolicy): boolean {
  return policy.limits.length > 0 && !countsNewIdentities(policy) && !holdsSlots(policy)
}

/** @throws {InputError} */
function readQuestions(body: unknown) {
  const { action, permits, actual, decidedAtMs, ...rest } = readInput(v.looseObject(how), body)
  if (action === 'take-up-to' ? !(permits && permits <= MAX_COST) : permits !== undefined) {
    const expected = `expected an integer from 1 to ${MAX_COST} with "take-up-to", and none with others`
    throw new InputError(['permits'], expected)
  }
  const settling = { actual, decidedAtMs }
  for (const [name, value] of Object.entries(settling)) {
    if ((action === 'settle') !== (value !== undefined))
      throw new InputError([name], 'expected a number from 0 with "settle", and none with others')
  }
  const whole = { action, permits, ...settling }
  if (!('charges' in rest)) return { ...whole, questions: [readQuestion([], rest)] }
  const { charges, ...others } = rest
  readInput(v.strictObject({}), others)
  if (!Array.isArray(charges) || charges.length === 0 || charges.length > MAX_CHARGES) {
    throw new InputError(['charges'], `expected a list of 1 to ${MAX_CHARGES}`)
  }
  const questions = charges.map((question, index) => readQuestion(['charges', `${index}`], question))
  return { ...whole, questions }
}

/** Reads by the one schema that is meant, whose errors say more than those of a union. @throws {InputError} */
function readQuestion(path: readonly string[], question: unknown) {
  const isNamed = typeof question === 'object' && question !== null && 'policy' in question
  if (isNamed && 'limits' in question) throw new InputError([...path, 'limits'], 'expected none together with a policy')
  return { path, question: readInput<Question>(isNamed ? named : own, question, path) }
}

/** Turns what the library says of an option into a problem. */
function toInputProblem<Value>(path: readonly string[], work: () => Value): Value {
  try {
    return work()
  } catch (error) {
    if (!(error instanceof OptionError)) throw error
    const pointer = toPointer([...path, error.variable, ...error.path])
    throw new OperationError('invalid_input', 400, `${error.message}.`, { extensions: { pointer } })
  }
}
