import * as v from 'valibot'
import type { RequestCharge } from '../../model/charge.ts'
import type { RequestPolicy } from '../../model/policy.ts'
import { readUsage, type SkippedPolicy, type TierState } from '../../request/caller/caller-charges.ts'
import { isShared } from '../../request/identity/source.ts'
import { appendAudit } from '../../rules/audit-log.ts'
import { applyRulesToCaller } from '../../rules/rule-index.ts'
import * as answers from '../answers.ts'
import { callerQuery, findCharges, toCaller, toSkipped } from '../caller-schema.ts'
import { findShared, note } from '../change-rules.ts'
import { defineOperation } from '../operation.ts'

export const usage = defineOperation({
  method: 'POST',
  path: '/usage',
  summary: 'What a caller has used, without spending',
  body: callerQuery,
  answer: answers.usage,
  async run(context, { body }) {
    const { config, store, now } = context
    const { active, charges, skipped } = await findCharges(context, body)
    const known = { caller: toCaller(body.caller), digest: body.caller.digest }
    const { blocked, charges: ruled } = await applyRulesToCaller(active.rules, known, charges, config, now())
    const { nowMs, tiers } = await readUsage(store, ruled)
    const shared = findShared(active.policies)
    const unlimited = new Set(ruled.filter(({ isUnlimited }) => isUnlimited).map(({ key }) => key))
    return {
      nowMs,
      blocked: blocked
        ? { status: blocked.status, reason: blocked.reason ?? null, untilMs: blocked.untilMs ?? null }
        : null,
      tiers: tiers.map((tier) => ({
        ...tier,
        configuredLimit: findConfiguredLimit(tier, charges),
        isUnlimited: unlimited.has(tier.key),
        isEveryone: shared.has(tier.policy),
        ...(unlimited.has(tier.key) && { retryAfterMs: 0 }),
      })),
      leftOut: toSkipped(skipped),
    }
  },
})

/** Finds the limit of a tier before the rules gave another one. */
function findConfiguredLimit({ key, windowMs, limit }: TierState, charges: readonly RequestCharge[]): number {
  const before = charges.find((charge) => charge.key === key)
  return before?.burst ?? before?.tiers.find((tier) => tier.windowMs === windowMs)?.limit ?? limit
}

export const LEFT_FOR_EVERYONE = 'it counts for everyone, and is reset only by its name'

/**
 * A reset spares what is counted for all callers together: to delete it would free all of them. A digest names nothing
 * else, and a policy that is named is meant.
 */
export function isSpared(
  policy: string,
  { caller, policies }: Pick<v.InferOutput<typeof callerQuery>, 'caller' | 'policies'>,
) {
  return caller.digest === undefined && !policies?.includes(policy)
}

export const reset = defineOperation({
  method: 'POST',
  path: '/reset',
  summary: 'Forget what a caller has used',
  description:
    'Deletes what policies have counted for a caller, as if it had never called. Policies by `global` or `route` alone ' +
    'count for everyone: they are left out, unless `policies` names them, or `digest` is theirs. Isolates that have just ' +
    'refused the caller go on with that for 5 seconds at most.',
  body: v.strictObject({ ...callerQuery.entries, by: note.by, why: note.why }),
  answer: answers.reset,
  async run(context, { body }) {
    const { engine, governed, now } = context
    const { charges, skipped } = await findCharges(context, body)
    const isLeft = ({ name, by }: RequestPolicy) => isShared(by) && isSpared(name, body)
    const spared = new Set(charges.map(({ policy }) => policy).filter(isLeft))
    const leftOut: SkippedPolicy[] = [...skipped, ...[...spared].map((policy) => ({ policy, why: LEFT_FOR_EVERYONE }))]
    const reset = charges.filter(({ policy }) => !spared.has(policy))
    const keys = reset.map(({ policy, key }) => ({ policy: policy.name, key }))
    if (keys.length > 0) {
      await engine.forget(keys.map(({ key }) => key))
      const { by, why } = body
      const what = `reset of ${[...new Set(keys.map(({ policy }) => policy))].join(', ')}`
      const digests = [...new Set(reset.map(({ digest }) => digest))]
      if (governed) await appendAudit(governed.journal, { atMs: now(), by, what, why, digests })
    }
    return { keys, leftOut: toSkipped(leftOut) }
  },
})
