import * as v from 'valibot'
import { callerIn } from '../../model/charge.ts'
import type { RequestPolicy } from '../../model/policy.ts'
import { isShared } from '../../request/identity/source.ts'
import { noteDeed } from '../../rules/journal.ts'
import { asked, leftOut, rulesOf, toldLeftOut } from '../caller-schema.ts'
import { note } from '../change-rules.ts'
import { inForce } from '../in-force.ts'
import { defineOperation } from '../operation.ts'

/** Why a reset leaves a policy as it is that was not asked for by its name. */
export const LEFT_FOR_EVERYONE = 'it counts for everyone, and is reset only by its name'

/**
 * Whether a reset leaves what is counted for all callers together: forgetting it would free all of them. A digest names
 * nothing else, and a policy that is named is meant.
 */
export function isSpared(
  policy: string,
  { caller, policies }: Pick<v.InferOutput<typeof asked>, 'caller' | 'policies'>,
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
  body: v.strictObject({ ...asked.entries, by: note.by, why: note.why }),
  answer: v.strictObject({
    keys: v.array(v.strictObject({ policy: v.string(), key: v.string() })),
    leftOut: v.pipe(leftOut, v.description('Policies that were left as they are, and why.')),
  }),
  async run(operated, { body }) {
    const { config, decider, governed, now } = operated
    const { policies } = await inForce(operated)
    const found = await rulesOf({ ...config, policies }, body)
    const isLeft = ({ name, by }: RequestPolicy) => isShared(by) && isSpared(name, body)
    const spared = [...new Set(found.rules.map(({ policy }) => policy).filter(isLeft))]
    const rules = found.rules.filter(({ policy }) => !isLeft(policy))
    const leftOut = [...found.leftOut, ...spared.map((policy) => ({ policy, why: LEFT_FOR_EVERYONE }))]
    const keys = rules.map(({ policy, rule: { key } }) => ({ policy: policy.name, key }))
    if (keys.length > 0) {
      await decider.forget(keys.map(({ key }) => key))
      const { by, why } = body
      const what = `reset of ${[...new Set(keys.map(({ policy }) => policy))].join(', ')}`
      const digests = [...new Set(keys.map(({ key }) => callerIn(key)))]
      if (governed) await noteDeed(governed.journal, { atMs: now(), by, what, why, digests })
    }
    return { keys, leftOut: toldLeftOut({ rules, leftOut }) }
  },
})
