import type { Claims } from '../../request/identity/claims.ts'
import { parseClaimSource } from '../../request/identity/source.ts'
import { CommandError } from '../command-error.ts'

type Claimed = { [name: string]: unknown }

/**
 * Adds a claim: `sub=alice` is a string, `id:=42` a number and `staff:=true` a boolean; `/account/plan=pro` is within
 * another one.
 * @throws {CommandError}
 */
export function collectClaims(text: string, before: Claims = {}): Claims {
  const { path, value } = readClaim(text)
  return withClaim(before, path, value)
}

/** One claim. @throws {CommandError} */
export function readClaim(text: string): {
  readonly name: string
  readonly path: readonly string[]
  readonly value: unknown
} {
  const [, name = '', sign, rest = ''] = /^([^=\s]+?)(:?=)(.*)$/s.exec(text) ?? []
  const path = parseClaimSource(name)?.path
  // Not the text, which says who somebody is.
  if (!path) throw new CommandError('--claim: expected name=value or /pointer=value, or name:=value for no string')
  return { name, path, value: sign === '=' ? rest : scalarOf(rest) }
}

function withClaim(claims: Claims, [name = '', ...path]: readonly string[], value: unknown): Claims {
  const inner = Object.hasOwn(claims, name) ? claims[name] : undefined
  if (inner !== undefined && (path.length === 0 || typeof inner !== 'object')) {
    throw new CommandError('--claim: expected each claim once')
  }
  // Without a prototype, so that `__proto__` is a name as any other.
  const made: Claimed = Object.assign(Object.create(null), claims)
  made[name] = path.length === 0 ? value : withClaim((inner ?? {}) as Claims, path, value)
  return made
}

/** @throws {CommandError} */
function scalarOf(text: string): unknown {
  if (/^(?:true|false|-?\d+(?:\.\d+)?)$/.test(text)) return JSON.parse(text)
  throw new CommandError('--claim: expected a number, true or false after ":="')
}
