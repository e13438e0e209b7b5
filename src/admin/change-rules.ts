import * as v from 'valibot'
import { OptionError } from '../config/option-error.ts'
import { isShared } from '../model/identity-source.ts'
import type { RequestPolicy } from '../model/policy.ts'
import { NO_RULES, type Rules } from '../rules/document.ts'
import { type Edited, type EditOptions, editRules, readCurrentRules } from '../rules/edit-rules.ts'
import { checkRules, readPolicies } from '../rules/rule-policies.ts'
import { describe } from '../statistics/schema.ts'
import { MAX_DOCUMENT_BYTES } from '../store/documents.ts'
import type * as answers from './answers.ts'
import { type AdminContext, InputError, OperationError, toPointer } from './operation.ts'

export const note = {
  actor: v.optional(describe(v.string(), 'Who does it, as they say: the token is shared.'), 'operator'),
  comment: v.optional(describe(v.string(), 'Why, for the audit log.'), ''),
  expectedVersion: v.optional(describe(v.pipe(v.number(), v.integer()), 'Only if this is the newest version.')),
  expectedId: v.optional(describe(v.string(), 'Its id: after a loss, other versions have the same numbers.')),
}

export const until = {
  until: v.optional(describe(v.string(), 'A moment, such as `2026-12-24T00:00:00Z`; left out, no end.')),
  for: v.optional(describe(v.string(), 'In place of it, a duration such as `1h`.')),
}

export type EditNote = v.InferOutput<v.StrictObjectSchema<typeof note, undefined>>

type ChangedRules = Extract<Edited, { readonly kind: 'written' | 'unchanged' }>

export interface ActiveRules {
  readonly rules: Rules
  readonly policies: readonly RequestPolicy[]
}

/** If the newest rules are invalid, or do not fit what was deployed, only its own policies apply, as in a new isolate. */
export async function readActiveRules({ rulesEngine, config, env }: AdminContext): Promise<ActiveRules> {
  if (!rulesEngine) return { rules: NO_RULES, policies: config.policies }
  try {
    const { rules } = await readCurrentRules(rulesEngine.documents)
    if (rules.policies === undefined) return { rules, policies: config.policies }
    const policies = readPolicies(env, rules.policies, 'policies')
    return { rules, policies }
  } catch (error) {
    if (error instanceof OptionError) return { rules: NO_RULES, policies: config.policies }
    throw error
  }
}

export function findShared(policies: readonly RequestPolicy[]): ReadonlySet<string> {
  return new Set(policies.filter(({ by }) => isShared(by)).map(({ name }) => name))
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
 * @param mustFit policies and overrides have to fit together; a block does not wait for that
 * @param locate finds the place in the body of what stands at a place in the rules
 */
export async function changeRules(
  context: AdminContext,
  change: (rules: Rules) => Rules,
  { actor, comment, ...options }: EditNote & Pick<EditOptions, 'replacesAll'>,
  mustFit: boolean,
  locate: (path: OptionError['path']) => readonly string[] | undefined = () => undefined,
): Promise<ChangedRules> {
  const { documents } = requireRules(context)
  const check = mustFit ? (rules: Rules) => checkRules(rules, context.env) : undefined
  const edited = await editRules(documents, change, { actor, comment }, { ...options, check }).catch((error) => {
    const place = error instanceof OptionError && locate(error.path)
    throw place ? toInputError(error, place) : toRulesError(error)
  })
  return requireChanged(edited)
}

export function toResponse({ version, kind }: ChangedRules): v.InferOutput<typeof answers.edited> {
  return { version, changed: kind === 'written' }
}

/** Describes a mistake at its place in the body, wherever it is in the rules. */
export function toInputError({ message }: OptionError, place: readonly string[]): InputError {
  return new InputError(place, message.replace(/^[^:]*: /, ''))
}

/** Describes invalid rules to an operator. They name callers by their digests only. */
export function toRulesError(error: unknown): unknown {
  if (!(error instanceof OptionError)) return error
  const { message, path } = error
  return new OperationError('invalid_input', 400, `${message}.`, { extensions: { pointer: toPointer(path) } })
}

function requireChanged(result: Edited): ChangedRules {
  switch (result.kind) {
    case 'written':
    case 'unchanged':
      return result
    case 'conflict': {
      const { version } = result
      const detail = `The rules have changed; the latest version is ${version}. Reload and try again.`
      throw new OperationError('version_conflict', 409, detail, { extensions: { version } })
    }
    case 'invalid':
      throw result.error
    case 'too-large':
      throw new OperationError('rules_too_large', 413, `The rules would have more than ${MAX_DOCUMENT_BYTES} bytes.`)
  }
}
