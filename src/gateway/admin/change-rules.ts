/** Changes rules for an operator: checks, writes, and notes who did it. */
import * as v from 'valibot'
import { HIDDEN, OptionError } from '../../core/options/option-error.ts'
import { MAX_DOCUMENT_BYTES, updateDocument } from '../../core/store/documents.ts'
import { InputError, OperationError, toPointer } from '../api/operation.ts'
import { describe } from '../api/schema.ts'
import type { ActiveRules } from '../rules/active-rules.ts'
import { NO_RULES, parseRules, RULES, type Rules, readRules } from '../rules/document.ts'
import { dropEnded } from '../rules/edit-rules.ts'
import { checkRules } from '../rules/rule-policies.ts'
import type * as answers from './answers.ts'
import type { AdminContext } from './operation.ts'

export const note = {
  actor: v.optional(describe(v.string(), 'Who does it, as they say: the token is shared.'), 'operator'),
  comment: v.optional(describe(v.string(), 'Why, for the audit log.'), ''),
  expectedVersion: v.optional(describe(v.pipe(v.number(), v.integer()), 'Only if this is the newest version.')),
  expectedId: v.optional(describe(v.string(), 'Its id: after a loss, other versions have the same numbers.')),
}

export type EditNote = v.InferOutput<v.StrictObjectSchema<typeof note, undefined>>

type Edited = v.InferOutput<typeof answers.edited>

/** Matches half of a surrogate pair in JSON, which Redis cannot read. */
const LONE_SURROGATE = /(?<!\\)(?:\\\\)*\\ud[89a-f][\da-f]{2}/

/** The part of the active rules that answers of operations contain. */
export function describeActive(active: ActiveRules): v.InferOutput<typeof answers.active> {
  const { kind, version } = active
  return { state: kind, version, problem: kind === 'invalid' ? active.problem : null }
}

export function requireRules({ rulesEngine }: AdminContext): NonNullable<AdminContext['rulesEngine']> {
  if (rulesEngine) return rulesEngine
  throw new OperationError(
    'rules_disabled',
    404,
    'Rules are disabled; set RULES = "on", and deploy or restart the gateway.',
  )
}

/**
 * Changes the newest rules; where the store has lost them, those that this isolate still enforces.
 * @param mustFit policies and overrides have to fit together; a block does not wait for that
 * @param locate finds the path in the body of what stands at a path in the rules
 */
export async function changeRules(
  context: AdminContext,
  change: (rules: Rules) => Rules,
  { actor, comment, expectedVersion, expectedId, replacesAll = false }: EditNote & { readonly replacesAll?: boolean },
  mustFit: boolean,
  locate: (path: OptionError['path'], rules: Rules) => readonly string[] | undefined = () => undefined,
): Promise<{ readonly edited: Edited; readonly rules: Rules }> {
  const engine = requireRules(context)
  let rules = NO_RULES
  let known = 0
  const written = await updateDocument(engine.documents, async ({ text: before, version, id }) => {
    if ((expectedVersion ?? version) !== version || (expectedId ?? id) !== id) throw createConflict(version)
    known = version
    // No edit ends what is enforced unless it says so.
    const active = version === 0 ? await engine.look() : undefined
    const lost = active?.kind === 'lost' ? active.rules : undefined
    const old = lost ?? parseStored(before, replacesAll)
    try {
      rules = dropEnded(change(old ?? NO_RULES), context.now())
      rules = readRules(rules)
      if (mustFit) checkRules(rules, context.env)
      const text = JSON.stringify(rules)
      if (LONE_SURROGATE.test(text)) throw new OptionError(RULES, 'text without half characters', HIDDEN)
      return text === JSON.stringify(old) && !lost ? undefined : { text, actor, comment }
    } catch (error) {
      const path = error instanceof OptionError && locate(error.path, rules)
      throw path ? toInputError(error, path) : toRulesError(error)
    }
  })
  if (!written) return { edited: { version: known, changed: false }, rules }
  if (written.kind === 'written') {
    // Whoever has written it is told what it does by the same isolate.
    await engine.look()
    return { edited: { version: written.version, changed: true }, rules }
  }
  if (written.kind !== 'too-large') throw createConflict(written.version)
  throw new OperationError('rules_too_large', 413, `The rules would have more than ${MAX_DOCUMENT_BYTES} bytes.`)
}

/** @returns undefined for invalid rules that are replaced anyway @throws {OptionError} for others */
function parseStored(text: string, isReplaced: boolean): Rules | undefined {
  try {
    return parseRules(text)
  } catch (error) {
    if (isReplaced && error instanceof OptionError) return undefined
    throw error
  }
}

function createConflict(version: number): OperationError {
  const detail = `The rules have changed; the latest version is ${version}. Reload and try again.`
  return new OperationError('version_conflict', 409, detail, { extensions: { version } })
}

/** Describes a mistake at its path in the body, wherever it is in the rules. */
export function toInputError({ message }: OptionError, path: readonly string[]): InputError {
  return new InputError(path, message.replace(/^[^:]*: /, ''))
}

/** Describes invalid rules to an operator. They name callers by their digests only. */
export function toRulesError(error: unknown): unknown {
  if (!(error instanceof OptionError)) return error
  const { message, path } = error
  return new OperationError('invalid_input', 400, `${message}.`, { extensions: { pointer: toPointer(path) } })
}
