import * as v from 'valibot'
import { ConfigError } from '../config/config-error.ts'
import { DURATION_EXPECTED, parseDuration } from '../limit/tiers.ts'
import type { Governed } from '../limiter/governed.ts'
import type { Rules } from '../rules/document.ts'
import { type Edited, editRules } from '../rules/editor.ts'
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
}

/** @throws {OperationError} if no rules are followed */
export function rulesOrProblem({ governed }: Pick<Operated, 'governed'>): Governed {
  if (governed) return governed
  const detail = 'No rules are followed: RULES = "on" turns that on.'
  throw new OperationError({ status: 404, title: 'Not Found', detail })
}

/** @throws {OperationError} */
export function untilOf(
  { until, for: duration }: { readonly until?: string | undefined; readonly for?: string | undefined },
  nowMs: number,
): string | undefined {
  if (duration === undefined) return until
  if (until !== undefined) throw new OperationError(badInput('for', 'until or for, not both'))
  const lastsMs = parseDuration(duration)
  if (lastsMs === undefined) throw new OperationError(badInput('for', DURATION_EXPECTED))
  return new Date(nowMs + lastsMs).toISOString()
}

/** Writes what a change makes of the rules. @throws {OperationError} @throws {StoreError} */
export async function changeRules(
  operated: Operated,
  change: (rules: Rules) => Rules,
  { by, why, expectedVersion }: Note,
): Promise<v.InferOutput<typeof edited>> {
  const { documents } = rulesOrProblem(operated)
  const check = (rules: Rules) => checkRules(rules, operated.env)
  try {
    return editedOf(await editRules(documents, change, { by, why }, { expectedVersion, check }))
  } catch (error) {
    throw error instanceof ConfigError ? new OperationError(problemOfRules(error)) : error
  }
}

/** What is wrong with rules, for an operator. Callers stand in them by their digests only. */
export function problemOfRules({ message, path }: ConfigError) {
  const place = path.join('.')
  return { status: 400, title: 'Bad Request', detail: `${message}.`, extensions: { place } }
}

/** @throws {OperationError} if it was refused */
export function editedOf(result: Edited): v.InferOutput<typeof edited> {
  switch (result.kind) {
    case 'written':
    case 'unchanged':
      return { version: result.version, isChanged: result.kind === 'written' }
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
    case 'unknown-version':
      throw new OperationError({ status: 404, title: 'Not Found', detail: 'That version is not kept.' })
  }
}
