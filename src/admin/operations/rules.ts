import * as v from 'valibot'
import { type Rules, readTarget } from '../../rules/document.ts'
import { currentRules } from '../../rules/editor.ts'
import { type Entries, type EntryList, withEntry, withoutEntry } from '../../rules/edits.ts'
import { whoInWords } from '../../rules/in-words.ts'
import { changeRules, edited, note, rulesOrProblem, toldOf, until, untilOf } from '../change-rules.ts'
import { badInput, defineOperation, type Operated, OperationError } from '../operation.ts'
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

/** What all three take. */
const order = { who, reason, ...until, remove, ...note }
const ordered = v.strictObject({
  ...edited.entries,
  who: v.pipe(entry, v.description('Whom it is about, as the rules have it.')),
  entry: v.pipe(v.nullable(entry), v.description('As it stands in the rules now; null: it was taken back.')),
})

export const block = defineOperation({
  method: 'POST',
  path: '/block',
  summary: 'Let a caller, a network, a country or a network operator in no more, or again',
  body: v.strictObject({ ...order, status: v.optional(v.number()) }),
  answer: ordered,
  run: (operated, { body: { status, ...asked } }) => write(operated, 'blocks', asked, { status }),
})

export const allow = defineOperation({
  method: 'POST',
  path: '/allow',
  summary: 'Limit a caller or a network no more, or again; it is counted all the same',
  body: v.strictObject(order),
  answer: ordered,
  run: (operated, { body }) => write(operated, 'allows', body, {}),
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
    write(operated, 'overrides', asked, { limits, times, unlimited, policies }),
})

type Order = v.InferOutput<v.StrictObjectSchema<typeof order, undefined>>

/** @param said what an entry of this list says, beside whom it is about */
async function write<List extends EntryList>(
  operated: Operated,
  list: List,
  { who, reason, remove, until, for: duration, ...note }: Order,
  said: Partial<Entries[List]>,
): Promise<v.InferOutput<typeof ordered>> {
  const nowMs = operated.now()
  const target = await targetOfWho(who, operated.config)
  const done = `${list.slice(0, -1)} ${whoInWords(target)}`
  if (remove) {
    if (Object.values({ ...said, reason, until, duration }).some((value) => value !== undefined)) {
      throw new OperationError(badInput('remove', 'nothing beside it but whom it is about'))
    }
    const change = (rules: Rules) => withoutEntry(list, rules, readTarget(target), nowMs)
    const changed = await changeRules(operated, change, { ...note, why: note.why || `remove ${done}` }, false)
    return { ...toldOf(changed), who: { ...target }, entry: null }
  }
  const entry = { ...target, ...said, reason, until: untilOf({ until, for: duration }, nowMs) } as Entries[List]
  const change = (rules: Rules) => withEntry(list, rules, entry, nowMs)
  // Only limits can go out of step with policies.
  const changed = await changeRules(operated, change, { ...note, why: note.why || done }, list === 'overrides')
  return { ...toldOf(changed), who: { ...target }, entry: { ...changed.rules[list].at(-1) } }
}
