/** What blocks, allows and overrides have in common. */

import * as v from 'valibot'
import { type Block, blockInWords, limitsInWords, type Override, type Rules, readTarget } from '../rules/document.ts'
import { type Entries, type EntryList, withEntry, withoutEntry } from '../rules/editor.ts'
import { noteDeed } from '../rules/journal.ts'
import type { Target } from '../rules/target.ts'
import { whoInWords } from '../rules/target.ts'
import { changeRules, edited, type Note, note, rulesOrProblem, toldOf, until, untilOf } from './change-rules.ts'
import { isOfEveryone } from './everyone.ts'
import { badInput, type Operated, OperationError } from './operation.ts'
import { targetOfWho, who } from './who-schema.ts'

const entry = v.looseObject({})

/** What all three take. */
export const order = {
  who,
  reason: v.optional(v.pipe(v.string(), v.description('For the entry; a blocked caller is told it.'))),
  ...until,
  remove: v.optional(v.pipe(v.boolean(), v.description('Take back what is there for `who`.')), false),
  ...note,
}

/** What all three answer. */
export const ordered = v.strictObject({
  ...edited.entries,
  who: v.pipe(entry, v.description('Whom it is about, as the rules have it.')),
  scope: v.pipe(
    v.picklist(['all', 'counted']),
    v.description(
      'Of which requests of `who`: all; or, by a digest alone, those to which a policy applies that counts by all that the digest was made of.',
    ),
  ),
  entry: v.pipe(v.nullable(entry), v.description('As it stands in the rules now; null: it was taken back.')),
})

type Order = v.InferOutput<v.StrictObjectSchema<typeof order, undefined>>
type Ordered = v.InferOutput<typeof ordered>

/**
 * Writes an entry, or takes it back.
 * @param said what an entry of this list says, beside whom it is about
 * @throws {OperationError | CallerError} @throws {StoreError}
 */
export async function writeOrder<List extends EntryList>(
  operated: Operated,
  list: List,
  { who, reason, remove, until, for: duration, ...note }: Order,
  said: Partial<Entries[List]>,
): Promise<Ordered> {
  const nowMs = operated.now()
  const target = await targetOfWho(who, operated)
  if (remove && Object.values({ ...said, reason, until, duration }).some((value) => value !== undefined)) {
    throw new OperationError(badInput('remove', 'nothing beside it but whom it is about'))
  }
  const { by, digest } = target
  const isByDigestAlone = digest !== undefined && by === undefined
  if (isByDigestAlone && !remove && (await isOfEveryone(digest, operated))) {
    throw new OperationError(badInput('who.digest', 'a caller, but this is counted for everyone'))
  }
  const name = list.slice(0, -1)
  const entry = { ...target, ...said, reason, until: untilOf({ until, for: duration }, nowMs) } as Entries[List]
  const change = (rules: Rules) =>
    remove
      ? withoutEntry(list, rules, readTarget(target), nowMs)
      : withEntry(list, rules, { ...entry, ...readTarget(target) }, nowMs)
  const why = note.why || `${remove ? 'remove ' : ''}${name} ${whoInWords(target)}`
  // Only limits can go out of step with policies; and nothing keeps one from taking them back.
  const changed = await changeRules(operated, change, { ...note, why }, list === 'overrides' && !remove)
  const written = remove ? null : (changed.rules[list].at(-1) as Entries[List])
  if (changed.kind === 'written') {
    await noteFor(operated, written ?? target, remove ? `no ${name} any more` : name, note)
  }
  const scope = isByDigestAlone ? 'counted' : 'all'
  return { ...toldOf(changed), who: { ...readTarget(target) }, scope, entry: written && copyOf(written) }
}

/** For the history of the caller, if it is about one. */
async function noteFor(
  operated: Operated,
  { digest, until, reason = '', ...said }: Target & Partial<Block & Override>,
  done: string,
  { by, why }: Pick<Note, 'by' | 'why'>,
): Promise<void> {
  if (digest === undefined) return
  const isOverride = said.limits !== undefined || said.times !== undefined || said.unlimited !== undefined
  const how = isOverride ? limitsInWords(said) : said.status === undefined ? undefined : blockInWords(said)
  const what = [done, how, until && `until ${until}`].filter((part) => part !== undefined).join(', ')
  const { journal } = rulesOrProblem(operated)
  await noteDeed(journal, { atMs: operated.now(), by, what, why: why || reason, digests: [digest] })
}

function copyOf(entry: object): Readonly<Record<string, unknown>> {
  return { ...entry }
}
