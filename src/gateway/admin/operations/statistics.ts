/** Operations on statistics: totals, and the history of a caller. */
import * as v from 'valibot'
import { CALLER_KIND_NAMES, isShared } from '../../../core/model/identity-source.ts'
import { KEPT_MS, PERIOD_MS, type Resolution } from '../../../core/store/counters.ts'
import { OperationError } from '../../api/operation.ts'
import { defineCount, describe } from '../../api/schema.ts'
import { createClaimReader, createRequest } from '../../callers/caller.ts'
import { readActiveRules } from '../../rules/active-rules.ts'
import { readAudit } from '../../rules/audit-log.ts'
import { createRuleTarget } from '../../rules/target.ts'
import { readRefusals, readStatistics, statisticsSchema } from '../../statistics/read-statistics.ts'
import * as answers from '../answers.ts'
import { type CallerInput, caller, findCharges } from '../caller-schema.ts'
import { type AdminContext, defineOperation } from '../operation.ts'

const resolution = v.picklist(['minute', 'hour'])
const periods = describe(defineCount(1_440), 'How many that have ended, beside the current one.')

export const statistics = defineOperation({
  path: '/statistics',
  summary: 'What all isolates have counted',
  description:
    'By minute for the last four hours, or by hour for the last 60 days. What isolates count arrives every 20 seconds.',
  query: v.strictObject({ by: v.optional(resolution, 'minute'), periods: v.optional(periods, 60) }),
  answer: statisticsSchema,
  async run(context, { by, periods }) {
    const { counters, now } = context
    if (!counters)
      throw new OperationError('statistics_disabled', 404, 'Statistics are disabled; set STATISTICS = "on".')
    const { policies } = await readActiveRules(context.rulesEngine, context.config)
    const shared = policies.filter((policy) => isShared(policy.by)).map(({ name }) => name)
    return readStatistics(counters, findRange(by, periods, now()), new Set(shared))
  },
})

export const history = defineOperation({
  path: '/history',
  summary: 'When a caller was refused, and what was done about it',
  description:
    'Refusals of the periods in which the caller was among those refused most. Of what was done, the last 500 blocks, ' +
    'allows, overrides and resets that name one caller: not those of networks, countries and parts of values.',
  body: v.strictObject({ caller, by: v.optional(resolution, 'hour'), periods: v.optional(periods, 24) }),
  answer: answers.history,
  async run(context, { caller, by, periods }) {
    const { rulesEngine, counters, now } = context
    const digests = await findDigests(caller, context)
    const audit = rulesEngine && (await readAudit(rulesEngine.auditLog, digests))
    return {
      refusals: counters ? await readRefusals(counters, digests, findRange(by, periods, now())) : null,
      audit: audit?.map(({ atMs, actor, action, comment }) => ({ atMs, actor, action, comment })) ?? null,
    }
  },
})

function findRange(resolution: Resolution, periods: number, nowMs: number) {
  const toMs = nowMs + 1
  return { resolution, fromMs: toMs - Math.min(KEPT_MS[resolution], periods * PERIOD_MS[resolution]), toMs }
}

/** Finds all digests of a caller: those under which policies count it, and those by which rules may name it. */
async function findDigests(caller: CallerInput, context: AdminContext): Promise<ReadonlySet<string>> {
  const { charges } = await findCharges(context, { caller })
  if (caller.digest !== undefined) return new Set([caller.digest])
  // What is counted for everyone is not about this caller.
  const own = charges.filter(({ policy: { by } }) => !isShared(by))
  const digests = own.map(({ digest }) => digest)
  for (const by of listSources(caller)) {
    const options = { ...context.config, readClaim: createClaimReader(caller.claim) }
    const target = await createRuleTarget(by, createRequest(caller), options)
    if (target?.digest !== undefined) digests.push(target.digest)
  }
  return new Set(digests)
}

function listSources(caller: CallerInput): readonly string[] {
  return CALLER_KIND_NAMES.flatMap((kind) => {
    const part = caller[kind]
    if (part === undefined) return []
    if (typeof part === 'string') return [kind]
    const names = Array.isArray(part) ? part.map(([name]) => name) : listPointers(part)
    return names.map((name) => `${kind}:${name}`)
  })
}

/** Lists the JSON Pointers (RFC 6901) of all claims that can be an identity. */
function listPointers(claims: object, before = ''): readonly string[] {
  return Object.entries(claims).flatMap(([name, value]) => {
    const pointer = `${before}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`
    return typeof value === 'object' && value !== null ? listPointers(value, pointer) : [pointer]
  })
}
