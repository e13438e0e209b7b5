/** Operations on counts: what a caller has used, and how to delete it. */
import * as v from 'valibot'
import type { RequestCharge } from '../../../core/model/charge.ts'
import { isShared } from '../../../core/model/identity-source.ts'
import type { RequestPolicy } from '../../../core/model/policy.ts'
import type { Blocked } from '../../../core/model/verdict.ts'
import { createClaimReader, createRequest, NO_RESPONSE } from '../../callers/caller.ts'
import { type CallerCharge, type LimitUsage, readUsage } from '../../callers/caller-charges.ts'
import { appendAudit } from '../../rules/audit-log.ts'
import { RuleIndex } from '../../rules/rule-index.ts'
import * as answers from '../answers.ts'
import { callerQuery, findCharges, toSkipped } from '../caller-schema.ts'
import { note } from '../change-rules.ts'
import { defineOperation } from '../operation.ts'

export const usage = defineOperation({
  path: '/usage',
  summary: 'What a caller has used; this charges nothing',
  body: callerQuery,
  answer: answers.usage,
  async run(context, input) {
    const { config, store, now } = context
    const { active, charges, skipped } = await findCharges(context, input)
    const { digest, ...caller } = input.caller
    const readClaim = createClaimReader(caller.claim)
    const index = new RuleIndex(active.rules, { ...config, readClaim, isByDigestOnly: digest !== undefined })
    const matched = (await index.match(createRequest(caller), now(), NO_RESPONSE)) ?? charges
    const applied = 'apply' in matched ? await matched.apply(charges) : matched
    const [applicable, blocked] = 'outcome' in applied ? [charges, toBlocked(applied)] : [applied, null]
    const { nowMs, limits } = await readUsage(store, applicable)
    return {
      nowMs,
      blocked,
      limits: limits.flatMap((own, index) =>
        isRepeated(applicable, index) ? [] : own.map((limit, at) => withConfigured(limit, charges[index], at)),
      ),
      skipped: toSkipped(skipped),
    }
  },
})

function toBlocked({ status, reason, untilMs }: Blocked) {
  return { status, reason: reason ?? null, untilMs: untilMs ?? null }
}

/** A rule may give the same limits to all plans. */
function isRepeated(charges: readonly RequestCharge[], index: number): boolean {
  const format = ({ key, limits, plan, policy }: RequestCharge) =>
    JSON.stringify([key, limits, policy.plans?.limits[plan ?? ''] && plan])
  const own = charges.map(format)
  return own.indexOf(own[index] as string) < index
}

/** @param before the charge before the rules gave it other limits */
function withConfigured(limit: LimitUsage, before: CallerCharge | undefined, at: number) {
  const configuredLimit = before?.burst ?? before?.limits[at]?.limit ?? limit.limit
  return { ...limit, configuredLimit, assumed: before?.isAssumed ?? false }
}

export const LEFT_FOR_EVERYONE = 'it counts for everyone, and is reset only by its name'

/**
 * A reset spares what is counted for all callers together, which would free them all, unless the caller is a digest or
 * the policy is named.
 */
export function isSpared(
  policy: string,
  { caller, policies }: Pick<v.InferOutput<typeof callerQuery>, 'caller' | 'policies'>,
) {
  return caller.digest === undefined && !policies?.includes(policy)
}

export const reset = defineOperation({
  path: '/reset',
  summary: 'Reset the counts of a caller',
  description:
    'Deletes what policies have counted for a caller. Policies by `global` or `route` alone count for everyone: they are ' +
    'skipped, unless `policies` names them, or `digest` is theirs. Refusals may continue for 5 seconds at most.',
  body: v.strictObject({ ...callerQuery.entries, actor: note.actor, comment: note.comment }),
  answer: answers.reset,
  async run(context, input) {
    const { engine, rulesEngine, now } = context
    const { charges, skipped: notCounted } = await findCharges(context, input)
    const isLeft = ({ name, by }: RequestPolicy) => isShared(by) && isSpared(name, input)
    const spared = new Set(charges.map(({ policy }) => policy).filter(isLeft))
    const left = [...spared].map((policy) => ({ policy, reason: LEFT_FOR_EVERYONE }))
    const reset = charges.filter(({ policy }) => !spared.has(policy))
    const keys = reset.map(({ policy, key }) => ({ policy: policy.name, key }))
    if (keys.length > 0) {
      await engine.delete(keys.map(({ key }) => key))
      const { actor, comment } = input
      const action = `reset of ${[...new Set(keys.map(({ policy }) => policy))].join(', ')}`
      const digests = [...new Set(reset.map(({ digest }) => digest))]
      if (rulesEngine) await appendAudit(rulesEngine.auditLog, { atMs: now(), actor, action, comment, digests })
    }
    return { keys, skipped: toSkipped([...notCounted, ...left]) }
  },
})
