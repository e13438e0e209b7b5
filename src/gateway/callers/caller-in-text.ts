/** Reads attributes of a caller from options of the command and fields of the dashboard. */

import { type CallerKind, parseClaimSource } from '../../core/model/identity-source.ts'
import type { Claims } from '../../http/request/identity/claims.ts'

/** An impossible caller. The message is one line, and repeats nothing that may be secret. */
export class CallerError extends Error {
  override readonly name = 'CallerError'
  /** The wrong attribute; undefined: their combination. */
  readonly part: CallerKind | 'route' | 'digest' | undefined

  constructor(message: string, part?: CallerError['part']) {
    super(message)
    this.part = part
  }
}

/** Adds `sub=alice`, `id:=42`, `staff:=true` or, within another claim, `/account/plan=pro`. @throws {CallerError} */
export function collectClaims(text: string, before: Claims = {}): Claims {
  const { path, value } = readClaim(text)
  return withClaim(before, path, value)
}

/** @throws {CallerError} */
export function readClaim(text: string) {
  const [, name = '', sign, rest = ''] = /^([^=\s]+?)(:?=)(.*)$/s.exec(text) ?? []
  const path = parseClaimSource(name)?.path
  // The text identifies a caller: no message repeats it.
  if (!path) throw new CallerError('expected name=value or /pointer=value, or name:=value for no string', 'claim')
  return { name, path, value: sign === '=' ? rest : parseScalar(rest) }
}

function withClaim(claims: Claims, [name = '', ...path]: readonly string[], value: unknown): Claims {
  const inner = Object.hasOwn(claims, name) ? claims[name] : undefined
  if (inner !== undefined && (path.length === 0 || typeof inner !== 'object')) {
    throw new CallerError('expected each claim once', 'claim')
  }
  // Without a prototype, so that `__proto__` is a name as any other.
  const added = { [name]: path.length === 0 ? value : withClaim((inner ?? {}) as Claims, path, value) }
  return Object.assign(Object.create(null), claims, added)
}

/** @throws {CallerError} */
function parseScalar(text: string): unknown {
  if (/^(?:true|false|-?(?:0|[1-9]\d*)(?:\.\d+)?)$/.test(text)) return JSON.parse(text)
  throw new CallerError('expected a number, true or false after ":="', 'claim')
}

/** `name=value`, or `Name: value` as curl has it. @throws {CallerError} */
export function readPair(text: string): readonly [name: string, value: string] {
  const [, name, value] = /^([^=:\s]+)(?:=|:\s*)(.*)$/s.exec(text) ?? []
  // The text may hold a secret: no message repeats it.
  if (name === undefined || value === undefined) {
    throw new CallerError('expected name=value, got something without "="')
  }
  return [name, value]
}
