/** Operations on counts: what a caller has used, and how to delete it. */
import * as v from 'valibot'
import { type IdentitySource, isCallerSource, isShared } from '../../../core/model/identity-source.ts'
import type { RequestPolicy } from '../../../core/model/policy.ts'
import { type CallerCharge, isGiven, type LimitUsage, readUsage } from '../../callers/caller-charges.ts'
import { appendAudit } from '../../rules/audit-log.ts'
import { createDigestTest, createRulesReader, listUndecided, type RuleEffects } from '../../rules/rule-effects.ts'
import * as answers from '../answers.ts'
import { callerQuery, findCharges, toSkipped } from '../caller-schema.ts'
import { describeActive, note } from '../change-rules.ts'
import { defineOperation } from '../operation.ts'

export const usage = defineOperation({
  path: '/usage',
  summary: 'What a caller has used; this charges nothing',
  body: callerQuery,
  answer: answers.usage,
  async run(context, input) {
    const { config, store, now } = context
    const { active, charges: before, skipped } = await findCharges(context, input)
    const { digest, ...caller } = input.caller
    const known = digest === undefined ? caller : undefined
    const { charges, blocked, isAllowed } = await createRulesReader(active.rules, config, now, known)(before)
    const { nowMs, limits } = await readUsage(store, charges)
    const counting = charges.filter((_, index) => limits[index]?.some(({ used }) => used > 0))
    const isOfDigest = createDigestTest(active.rules, counting, digest)
    const isKnown = (source: IdentitySource) =>
      known ? isCallerSource(source) && isGiven(known, source) : isOfDigest(source)
    return {
      nowMs,
      active: describeActive(active),
      blocked: blocked ? toBlocked(blocked) : null,
      allowed: isAllowed || (charges.length > 0 && charges.every(({ isUnlimited }) => isUnlimited)),
      undecided: isAllowed ? [] : [...listUndecided(active.rules, isKnown, now())],
      limits: limits.flat().map((limit) => ({ ...limit, configuredLimit: findConfigured(limit, before) })),
      skipped: toSkipped(skipped),
    }
  },
})

function toBlocked({ status, reason, untilMs, isShadow }: NonNullable<RuleEffects['blocked']>) {
  return { status, reason: reason ?? null, untilMs: untilMs ?? null, shadow: isShadow }
}

/** @param before the charges before rules gave them other limits */
function findConfigured({ key, plan, name, limit }: LimitUsage, before: readonly CallerCharge[]): number {
  const charge = before.find((each) => each.key === key && (plan === null || each.planName === plan))
  const at = charge?.policy.limits.findIndex((each) => each.name === name) ?? -1
  return charge?.burst ?? charge?.limits[at]?.limit ?? limit
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
