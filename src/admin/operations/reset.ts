import * as v from 'valibot'
import { caller, rulesOf } from '../caller-schema.ts'
import { inForce } from '../in-force.ts'
import { badInput, defineOperation, OperationError } from '../operation.ts'
import { leftOut } from './usage.ts'

export const reset = defineOperation({
  method: 'POST',
  path: '/reset',
  summary: 'Forget what a caller has used',
  description:
    'Deletes what policies have counted for a caller, as if it had never called. Isolates that have just refused the ' +
    'caller go on with that for 5 seconds at most.',
  body: v.strictObject({
    caller,
    policies: v.optional(v.pipe(v.array(v.string()), v.description('Only these.'))),
  }),
  answer: v.strictObject({
    keys: v.array(v.strictObject({ policy: v.string(), key: v.string() })),
    leftOut: v.pipe(leftOut, v.description('Policies that were left as they are, and why.')),
  }),
  async run(operated, { body }) {
    const { config, decider } = operated
    const { policies } = await inForce(operated)
    const names = body.policies
    const known = policies.map(({ name }) => name)
    const unknown = names?.findIndex((name) => !known.includes(name)) ?? -1
    if (unknown >= 0) throw new OperationError(badInput(`policies.${unknown}`, `one of ${known.join(', ')}`))
    const isAsked = ({ policy }: { policy: { name: string } }) => names === undefined || names.includes(policy.name)
    const asked = await rulesOf({ ...config, policies }, body.caller)
    const keys = asked.rules.filter(isAsked).map(({ policy, rule: { key } }) => ({ policy: policy.name, key }))
    if (keys.length > 0) await decider.forget(keys.map(({ key }) => key))
    return {
      keys,
      leftOut: asked.leftOut.filter(isAsked).map(({ policy, why }) => ({ policy: policy.name, why })),
    }
  },
})
