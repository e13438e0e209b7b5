import * as v from 'valibot'
import type { Rules } from '../../rules/document.ts'
import { currentRules } from '../../rules/editor.ts'
import { withAllow, withBlock, withOverride, withoutAllow, withoutBlock, withoutOverride } from '../../rules/edits.ts'
import type { Target } from '../../rules/target.ts'
import { changeRules, edited, note, rulesOrProblem, until, untilOf } from '../change-rules.ts'
import { defineOperation, type Operated } from '../operation.ts'
import { targetOfWho, who } from '../who-schema.ts'

const entry = v.looseObject({})
const version = v.pipe(v.number(), v.integer(), v.minValue(0))

export const revision = {
  version: v.pipe(version, v.description('0: there are none.')),
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
    const { rules, version, atMs, by, why } = await currentRules(documents)
    const { readAtMs, problem, shadow, ...own } = state()
    return {
      ...{ version, atMs, by, why },
      rules: documentOf(rules),
      isolate: {
        version: own.version,
        readAtMs: readAtMs ?? null,
        problem: problem ?? null,
        shadow: shadow ? { ...shadow } : null,
      },
    }
  },
})

const reason = v.optional(v.pipe(v.string(), v.description('For the entry; a blocked caller is told it.')))
const remove = v.optional(v.pipe(v.boolean(), v.description('Take back what is there for `who`.')), false)

export const block = defineOperation({
  method: 'POST',
  path: '/block',
  summary: 'Let a caller, a network, a country or a network operator in no more, or again',
  body: v.strictObject({ who, status: v.optional(v.number()), reason, ...until, remove, ...note }),
  answer: edited,
  run: (operated, { body: { status, reason, remove, ...rest } }) =>
    order(operated, rest, (rules, target, until, nowMs) =>
      remove ? withoutBlock(rules, target, nowMs) : withBlock(rules, { ...target, status, reason, until }, nowMs),
    ),
})

export const allow = defineOperation({
  method: 'POST',
  path: '/allow',
  summary: 'Limit a caller or a network no more, or again; it is counted all the same',
  body: v.strictObject({ who, reason, ...until, remove, ...note }),
  answer: edited,
  run: (operated, { body: { reason, remove, ...rest } }) =>
    order(operated, rest, (rules, target, until, nowMs) =>
      remove ? withoutAllow(rules, target, nowMs) : withAllow(rules, { ...target, reason, until }, nowMs),
    ),
})

export const override = defineOperation({
  method: 'POST',
  path: '/override',
  summary: 'Give a caller other limits, or those of everybody again',
  body: v.strictObject({
    who,
    limits: v.optional(
      v.pipe(v.record(v.string(), v.string()), v.description('By the name of a policy, such as `600/1m`.')),
    ),
    times: v.optional(v.pipe(v.number(), v.description('A multiple of the limits.'))),
    unlimited: v.optional(v.literal(true)),
    policies: v.optional(v.pipe(v.array(v.string()), v.description('With times or unlimited: only these.'))),
    reason,
    ...until,
    remove,
    ...note,
  }),
  answer: edited,
  run: (operated, { body: { limits, times, unlimited, policies, reason, remove, ...rest } }) =>
    order(operated, rest, (rules, target, until, nowMs) =>
      remove
        ? withoutOverride(rules, target, nowMs)
        : withOverride(rules, { ...target, limits, times, unlimited, policies, reason, until }, nowMs),
    ),
})

type Ordered = v.InferOutput<typeof edited>

interface Order {
  readonly who: v.InferOutput<typeof who>
  readonly until?: string | undefined
  readonly for?: string | undefined
  readonly by: string
  readonly why: string
  readonly expectedVersion?: number | undefined
}

async function order(
  operated: Operated,
  { who, ...rest }: Order,
  change: (rules: Rules, target: Target, until: string | undefined, nowMs: number) => Rules,
): Promise<Ordered> {
  const nowMs = operated.now()
  const target = await targetOfWho(who, operated.config)
  const until = untilOf(rest, nowMs)
  return changeRules(operated, (rules) => change(rules, target, until, nowMs), rest)
}
