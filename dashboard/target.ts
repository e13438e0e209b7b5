/** Callers as operators name them, read by the same code as the options of the command. */

import { type CallerKind, PAIR_KIND_NAMES, SOURCE_KINDS } from '../src/core/model/identity-source.ts'
import { mapNames } from '../src/core/runtime/lists.ts'
import { collectClaims, readClaim, readPair } from '../src/gateway/callers/caller-in-text.ts'
import { createTargetInput } from '../src/gateway/rules/target.ts'

interface Labels {
  readonly title: string
  readonly hint?: string
}

const pairs = mapNames(PAIR_KIND_NAMES, (kind): Labels => {
  const { noun, example, isNamedInPart } = SOURCE_KINDS[kind]
  const title = `${noun[0]?.toUpperCase()}${noun.slice(1)}, such as ${example}`
  return isNamedInPart ? { title, hint: 'One * is a wildcard; rules then apply to every match.' } : { title }
})

/** Identities that a caller can be named by. */
export const KINDS: Readonly<Record<CallerKind | 'digest', Labels>> = {
  token: { title: 'Token (Authorization header)' },
  ip: { title: 'IP address (203.0.113.7)' },
  digest: { title: 'Digest (22 characters)' },
  ...pairs,
  claim: {
    title: 'JWT claim, such as sub=alice',
    hint: 'One * is a wildcard (sub=acme-*); := for a number or boolean (id:=42); a JSON pointer for a nested claim (/account/plan=pro).',
  },
}
export type Kind = keyof typeof KINDS

export interface Target {
  /** Undefined for a pattern, which is no single caller. */
  readonly caller: object | undefined
  /** The target of a rule. */
  readonly target: object
}

/** @throws {CallerError} */
export function parseTarget(kind: Kind, text: string): Target {
  if (kind === 'token' || kind === 'ip' || kind === 'digest')
    return { caller: { [kind]: text }, target: { [kind]: text } }
  if (kind === 'claim') {
    const { name, value } = readClaim(text)
    return withoutPattern({ claim: collectClaims(text) }, createTargetInput(kind, name, value))
  }
  const [name, value] = readPair(text)
  return withoutPattern({ [kind]: { [name]: value } }, createTargetInput(kind, name, value))
}

function withoutPattern(caller: object, target: object): Target {
  return { caller: 'by' in target ? undefined : caller, target }
}
