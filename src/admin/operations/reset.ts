import * as v from 'valibot'
import { callerIn } from '../../request/caller-in-key.ts'
import { noteDeed } from '../../rules/journal.ts'
import { asked, leftOut, rulesOf, toldLeftOut } from '../caller-schema.ts'
import { note } from '../change-rules.ts'
import { inForce } from '../in-force.ts'
import { defineOperation } from '../operation.ts'

export const reset = defineOperation({
  method: 'POST',
  path: '/reset',
  summary: 'Forget what a caller has used',
  description:
    'Deletes what policies have counted for a caller, as if it had never called. Isolates that have just refused the ' +
    'caller go on with that for 5 seconds at most.',
  body: v.strictObject({ ...asked.entries, by: note.by, why: note.why }),
  answer: v.strictObject({
    keys: v.array(v.strictObject({ policy: v.string(), key: v.string() })),
    leftOut: v.pipe(leftOut, v.description('Policies that were left as they are, and why.')),
  }),
  async run(operated, { body }) {
    const { config, decider, governed, now } = operated
    const { policies } = await inForce(operated)
    const found = await rulesOf({ ...config, policies }, body)
    const keys = found.rules.map(({ policy, rule: { key } }) => ({ policy: policy.name, key }))
    if (keys.length > 0) {
      await decider.forget(keys.map(({ key }) => key))
      const { by, why } = body
      const what = `reset of ${[...new Set(keys.map(({ policy }) => policy))].join(', ')}`
      const digests = [...new Set(keys.map(({ key }) => callerIn(key)))]
      if (governed) await noteDeed(governed.journal, { atMs: now(), by, what, why, digests })
    }
    return { keys, leftOut: toldLeftOut(found) }
  },
})
