import * as v from 'valibot'
import { OptionError } from '../config/option-error.ts'
import type { Rules } from '../rules/document.ts'
import { type Edited, editRules, type UnknownVersion } from '../rules/editor.ts'
import { endOf, type Lasts } from '../rules/end-of.ts'
import { checkRules } from '../rules/policies.ts'
import { badInput, type Operated, OperationError } from './operation.ts'

/** Who changes the rules, why, and what they have seen of them. */
export const note = {
  by: v.optional(
    v.pipe(v.string(), v.description('Who does it. The token is everybody’s, so it is what they say.')),
    'operator',
  ),
  why: v.optional(v.pipe(v.string(), v.description('For the history.')), ''),
  expectedVersion: v.optional(
    v.pipe(v.number(), v.integer(), v.description('Only if this is the newest version; left out, whichever is.')),
  ),
  expectedId: v.optional(
    v.pipe(v.string(), v.description('Its id: after a loss of the rules, other versions have the same numbers.')),
  ),
}

/** When it ends. */
export const until = {
  until: v.optional(v.pipe(v.string(), v.description('A moment, such as `2026-12-24T00:00:00Z`; left out, no end.'))),
  for: v.optional(v.pipe(v.string(), v.description('In place of it, a duration such as `1h`.'))),
}

export const edited = v.strictObject({
  version: v.pipe(v.number(), v.description('The newest.')),
  isChanged: v.pipe(v.boolean(), v.description('False: it was so already.')),
})

export interface Note {
  readonly by: string
  readonly why: string
  readonly expectedVersion?: number | undefined
  readonly expectedId?: string | undefined
}

/** @throws {OperationError} if no rules are followed */
export function rulesOrProblem({ governed }: Operated): NonNullable<Operated['governed']> {
  if (governed) return governed
  const detail = 'No rules are followed: RULES = "on" turns that on.'
  throw new OperationError({ status: 404, title: 'Not Found', detail })
}

/** @throws {OperationError} */
export function untilOf(lasts: Lasts, nowMs: number): string | undefined {
  const end = endOf(lasts, nowMs)
  if ('wrong' in end) throw new OperationError(badInput(end.wrong, end.expected))
  return end.until
}

/** A change of the rules that was made, or was not needed. */
export type Changed = Extract<Edited, { readonly kind: 'written' | 'unchanged' }>

/**
 * Writes what a change makes of the rules.
 * @param mustFit whether policies and overrides have to fit together then. A block does not wait for that.
 * @throws {OperationError} @throws {StoreError}
 */
export async function changeRules(
  operated: Operated,
  change: (rules: Rules) => Rules,
  { by, why, ...expected }: Note,
  mustFit: boolean,
): Promise<Changed> {
  const { documents } = rulesOrProblem(operated)
  const check = mustFit ? (rules: Rules) => checkRules(rules, operated.env) : undefined
  try {
    return writtenOf(await editRules(documents, change, { by, why }, { ...expected, check }))
  } catch (error) {
    throw error instanceof OptionError ? new OperationError(problemOfRules(error)) : error
  }
}

/** What there is to tell of a change. */
export function toldOf({ version, kind }: Changed): v.InferOutput<typeof edited> {
  return { version, isChanged: kind === 'written' }
}

/** What is wrong with rules, for an operator. Callers stand in them by their digests only. */
export function problemOfRules({ message, path }: OptionError) {
  const place = path.join('.')
  return { status: 400, title: 'Bad Request', detail: `${message}.`, extensions: { place } }
}

/** @throws {OperationError} if it was refused */
export function writtenOf(result: Exclude<Edited, UnknownVersion>): Changed {
  switch (result.kind) {
    case 'written':
    case 'unchanged':
      return result
    case 'conflict':
      throw new OperationError({
        status: 409,
        title: 'Conflict',
        detail: `Somebody else has changed the rules: the newest version is ${result.version}.`,
        extensions: { version: result.version },
      })
    case 'too-large':
      throw new OperationError({
        status: 413,
        title: 'Content Too Large',
        detail: `The rules would have more than ${result.maxBytes} bytes.`,
      })
  }
}
