import * as v from 'valibot'
import type { Rules } from '../../rules/document.ts'
import { currentRules } from '../../rules/editor.ts'
import { rulesOrProblem } from '../change-rules.ts'
import { defineOperation } from '../operation.ts'
import { order, ordered, writeOrder } from '../order.ts'

const entry = v.looseObject({})
const version = v.pipe(v.number(), v.integer(), v.minValue(0))

export const revision = {
  version: v.pipe(version, v.description('0: there are none.')),
  id: v.pipe(
    v.string(),
    v.description('Tells it from others that have its number after a loss; empty if it is older.'),
  ),
  atMs: v.pipe(v.number(), v.description('Milliseconds since the Unix epoch.')),
  by: v.string(),
  why: v.string(),
}

/** The document, as far as it is data for all to read. */
export const document = v.strictObject({
  blocks: v.array(entry),
  allows: v.array(entry),
  overrides: v.array(entry),
  policies: v.pipe(v.nullable(v.array(entry)), v.description('In place of POLICIES; null: those hold.')),
  shadow: v.pipe(v.nullable(v.array(entry)), v.description('They decide beside those in force, and refuse nothing.')),
})

export function documentOf({ blocks, allows, overrides, policies, shadow }: Rules): v.InferOutput<typeof document> {
  const copied = (list: readonly object[]) => list.map((each) => ({ ...each }))
  return {
    ...{ blocks: copied(blocks), allows: copied(allows), overrides: copied(overrides) },
    policies: policies ? copied(policies) : null,
    shadow: shadow ? copied(shadow) : null,
  }
}

export const rules = defineOperation({
  method: 'GET',
  path: '/rules',
  summary: 'Blocks, allows, overrides and policies that hold without a deploy',
  answer: v.strictObject({
    ...revision,
    rules: document,
    isolate: v.pipe(
      v.strictObject({
        version,
        id: v.string(),
        readAtMs: v.nullable(v.number()),
        problem: v.pipe(v.nullable(v.string()), v.description('Why a newer version is not in force.')),
        shadow: v.nullable(
          v.strictObject({
            requests: version,
            refusedByBoth: version,
            refusedByShadowOnly: version,
            refusedByForceOnly: version,
          }),
        ),
      }),
      v.description('What the isolate that answers has in force, and has counted of policies in shadow.'),
    ),
  }),
  async run(operated) {
    const { documents, state } = rulesOrProblem(operated)
    const { rules, version, id, atMs, by, why } = await currentRules(documents)
    const { readAtMs, problem, shadow, ...own } = state()
    return {
      ...{ version, id, atMs, by, why },
      rules: documentOf(rules),
      isolate: {
        ...own,
        readAtMs: readAtMs ?? null,
        problem: problem ?? null,
        shadow: shadow ? { ...shadow } : null,
      },
    }
  },
})

export const block = defineOperation({
  method: 'POST',
  path: '/block',
  summary: 'Let a caller, a network, a country or a network operator in no more, or again',
  body: v.strictObject({ ...order, status: v.optional(v.number()) }),
  answer: ordered,
  run: (operated, { body: { status, ...asked } }) => writeOrder(operated, 'blocks', asked, { status }),
})

export const allow = defineOperation({
  method: 'POST',
  path: '/allow',
  summary: 'Limit a caller or a network no more, or again; it is counted all the same',
  body: v.strictObject(order),
  answer: ordered,
  run: (operated, { body }) => writeOrder(operated, 'allows', body, {}),
})

export const override = defineOperation({
  method: 'POST',
  path: '/override',
  summary: 'Give a caller other limits, or those of everybody again',
  body: v.strictObject({
    ...order,
    limits: v.optional(
      v.pipe(v.record(v.string(), v.string()), v.description('By the name of a policy, such as `600/1m`.')),
    ),
    times: v.optional(v.pipe(v.number(), v.description('A multiple of the limits.'))),
    unlimited: v.optional(v.literal(true)),
    policies: v.optional(v.pipe(v.array(v.string()), v.description('With times or unlimited: only these.'))),
  }),
  answer: ordered,
  run: (operated, { body: { limits, times, unlimited, policies, ...asked } }) =>
    writeOrder(operated, 'overrides', asked, { limits, times, unlimited, policies }),
})
