/** Operations on rules: blocks, allows and overrides. */
import * as v from 'valibot'
import { DURATION_EXPECTED, parseDuration } from '../../../core/model/limits.ts'
import { OptionError } from '../../../core/options/option-error.ts'
import { InputError } from '../../api/operation.ts'
import { describe } from '../../api/schema.ts'
import { CallerError } from '../../callers/caller-in-text.ts'
import { appendAudit } from '../../rules/audit-log.ts'
import { type Block, checkRuleTarget, isOver, type Override, type Rules } from '../../rules/document.ts'
import { type Entries, type EntryList, isSameTarget, withEntry, withoutEntry } from '../../rules/edit-rules.ts'
import { formatBlock, formatOverride } from '../../rules/format-rules.ts'
import { formatTarget, type RuleTarget } from '../../rules/target.ts'
import * as answers from '../answers.ts'
import { isSharedDigest, resolveTarget, target } from '../caller-schema.ts'
import { changeRules, describeActive, type EditNote, note, requireRules, toInputError } from '../change-rules.ts'
import { type AdminContext, defineOperation, locateCallerError } from '../operation.ts'

export function toDocument({ policies, ...lists }: Rules) {
  return { ...lists, policies: policies ?? null }
}

export const rules = defineOperation({
  path: '/rules',
  summary: 'The rules: blocks, allows, overrides and policies that apply without a deploy',
  answer: answers.rules,
  async run(context) {
    const active = await requireRules(context).look()
    const { version, id, atMs, actor, comment } = active.stored
    const isolate = { ...describeActive(active), id: active.id, readAtMs: active.readAtMs ?? null }
    return { version, id, atMs, actor, comment, rules: toDocument(active.rules), isolate }
  },
})

const edit = {
  target,
  reason: v.optional(describe(v.string(), 'A blocked caller can read it.')),
  until: v.optional(describe(v.string(), 'A moment, such as `2026-12-24T00:00:00Z`; left out, no end.')),
  for: v.optional(describe(v.string(), 'In place of it, a duration such as `1h`.')),
  remove: v.optional(describe(v.boolean(), 'Remove what there is for `target`.'), false),
  ...note,
}

type Edit = v.InferOutput<v.StrictObjectSchema<typeof edit, undefined>>

export const block = defineOperation({
  path: '/block',
  summary: 'Block or unblock a caller, a network, a country or a network operator',
  body: v.strictObject({ ...edit, status: v.optional(v.number()) }),
  answer: answers.ordered,
  run: (context, { status, ...rest }) => editRule(context, 'blocks', rest, { status }),
})

export const allow = defineOperation({
  path: '/allow',
  summary: 'Stop or resume limiting a caller or a network; it is counted either way',
  body: v.strictObject(edit),
  answer: answers.ordered,
  run: (context, edit) => editRule(context, 'allows', edit, {}),
})

export const override = defineOperation({
  path: '/override',
  summary: 'Give a caller other limits, or end that',
  body: v.strictObject({
    ...edit,
    limits: v.optional(describe(v.record(v.string(), v.string()), 'By the name of a policy, such as `600/1m`.')),
    multiplier: v.optional(describe(v.number(), 'A multiple of the limits.')),
    unlimited: v.optional(v.literal(true)),
    policies: v.optional(describe(v.array(v.string()), 'With multiplier or unlimited: only these.')),
  }),
  answer: answers.ordered,
  run: (context, { limits, multiplier, unlimited, policies, ...rest }) =>
    editRule(context, 'overrides', rest, { limits, multiplier, unlimited, policies }),
})

/** @param effect fields of entries in this list, besides the target */
async function editRule<List extends EntryList>(
  context: AdminContext,
  list: List,
  { target: named, reason, remove, until, for: duration, ...note }: Edit,
  effect: Partial<Entries[List]>,
): Promise<v.InferOutput<typeof answers.ordered>> {
  const nowMs = context.now()
  const target = await resolveTarget(named, context).then(checkRuleTarget).catch(refuseTarget)
  if (remove && Object.values({ ...effect, reason, until, duration }).some((value) => value !== undefined)) {
    throw new InputError(['remove'], 'expected only the target beside it')
  }
  const isByDigestAlone = target.digest !== undefined && target.by === undefined
  if (isByDigestAlone && !remove && (await isSharedDigest(target.digest, context))) {
    throw new InputError(['target', 'digest'], 'expected a caller, but this is counted for everyone')
  }
  const name = list.slice(0, -1)
  const entry = { ...target, ...effect, reason, until: resolveEnd(until, duration, nowMs) } as Entries[List]
  const change = (rules: Rules) => (remove ? withoutEntry(list, rules, target) : withEntry(list, rules, entry))
  const locate = ([section, index, ...keys]: OptionError['path'], rules: Rules) => {
    if (section !== list || index !== rules[list].findIndex((each) => isSameTarget(each, target))) return undefined
    const names = keys.map(String)
    return Object.hasOwn(target, names[0] ?? '') ? ['target', ...names] : names
  }
  const comment = note.comment || `${remove ? 'remove ' : ''}${name} ${formatTarget(target)}`
  // Only limits can go out of step with policies; and nothing keeps one from taking them back.
  const mustFit = list === 'overrides' && !remove
  const { edited, rules } = await changeRules(context, change, { ...note, comment }, mustFit, locate)
  const entries: readonly RuleTarget[] = rules[list]
  const written = remove ? undefined : entries.find((each) => isSameTarget(each, target))
  if (edited.changed) {
    await recordEdit(context, written ?? target, remove ? `${name} removed` : name, note)
  }
  return {
    ...edited,
    target: { ...target },
    scope: isByDigestAlone ? 'counted' : 'all',
    entry: written ? { ...written } : null,
  }
}

/** @returns when the entry ends, which is checked with the rules; undefined: never @throws {InputError} */
function resolveEnd(until: string | undefined, duration: string | undefined, nowMs: number): string | undefined {
  if (until !== undefined && duration !== undefined) throw new InputError(['for'], 'expected for or until, not both')
  if (isOver({ until }, nowMs)) throw new InputError(['until'], 'expected a moment that is yet to come')
  if (duration === undefined) return until
  const durationMs = parseDuration(duration)
  if (durationMs === undefined) throw new InputError(['for'], `expected ${DURATION_EXPECTED}`)
  return new Date(nowMs + durationMs).toISOString()
}

/** @throws {InputError} for a mistake in the target */
function refuseTarget(error: unknown): never {
  if (error instanceof OptionError) throw toInputError(error, ['target', ...error.path.slice(2).map(String)])
  throw error instanceof CallerError ? locateCallerError(error, 'target') : error
}

/** Records the edit for the history of the caller, if the entry is about one. */
async function recordEdit(
  context: AdminContext,
  { digest, until, reason = '', ...effect }: RuleTarget & Partial<Block & Override>,
  action: string,
  { actor, comment }: EditNote,
): Promise<void> {
  if (digest === undefined) return
  const isOverride = effect.limits !== undefined || effect.multiplier !== undefined || effect.unlimited !== undefined
  const how = isOverride ? formatOverride(effect) : effect.status === undefined ? undefined : formatBlock(effect)
  const what = [action, how, until && `until ${until}`].filter((part) => part !== undefined).join(', ')
  const { auditLog } = requireRules(context)
  const entry = { atMs: context.now(), actor, action: what, comment: comment || reason, digests: [digest] }
  await appendAudit(auditLog, entry)
}
