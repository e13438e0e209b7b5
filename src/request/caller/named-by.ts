import type { Source } from '../../model/policy.ts'

/** What tells one caller from others. The rest is the same for all callers, or only the application can tell it. */
export type CallerKind = Exclude<Source['kind'], 'route' | 'global' | 'application'>

interface Naming {
  /** Rules are looked up before a body is read: they know it by its digest only, where a policy counts by it. */
  readonly isInBody?: true
  /** Rules may name many callers by a part of it. */
  readonly isNamedInPart?: true
}

/**
 * How operators name a caller, in the API, the command and on the dashboard. Each of these has an entry for every kind, or
 * it does not compile.
 */
export const CALLER_KINDS: Readonly<Record<CallerKind, Naming>> = {
  token: {},
  ip: {},
  header: { isNamedInPart: true },
  query: {},
  cookie: {},
  form: { isInBody: true },
  json: { isInBody: true },
  claim: { isNamedInPart: true },
}

export const CALLER_KIND_NAMES = Object.keys(CALLER_KINDS) as readonly CallerKind[]

export function isCallerKind(kind: string): kind is CallerKind {
  return Object.hasOwn(CALLER_KINDS, kind)
}

/** In one way only: names of fields in lower case. */
export function nameOfSource(source: Source): string {
  return 'name' in source ? `${source.kind}:${source.name}` : source.kind
}

/** Whether these tell no caller from another: what is counted by them is counted for everyone. */
export function isShared(sources: readonly Source[]): boolean {
  return sources.every(({ kind }) => kind === 'global' || kind === 'route')
}
