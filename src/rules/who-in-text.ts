import { type CallerKind, SOURCE_KINDS } from '../request/identity/source.ts'

/** What callers are named by that has a name itself. */
export type NamedKind = Exclude<CallerKind, 'token' | 'ip'>

/**
 * Who is meant by a name and a value that somebody wrote, as the body of a block, an allow or an override has it: one
 * caller; or all whose value is like one with a `*`, of what may be named in part.
 */
export function whoNamed(kind: NamedKind, name: string, value: unknown): object {
  const isPattern = SOURCE_KINDS[kind].isNamedInPart && typeof value === 'string' && value.includes('*')
  if (!isPattern) return { [kind]: { [name]: value } }
  return { by: `${kind}:${kind === 'header' ? name.toLowerCase() : name}`, value }
}
