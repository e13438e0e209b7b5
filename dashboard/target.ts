/** Callers as operators name them, read by the same code as the options of the command. */
import { collectClaims, readClaim, readPair } from '../src/request/caller/caller-in-text.ts'
import type { CallerKind } from '../src/request/identity/source.ts'
import { createTargetInput } from '../src/rules/target.ts'

/** Identities that a caller can be named by. */
export const KINDS = {
  token: { title: 'Token (Authorization header)', hint: '' },
  ip: { title: 'IP address (203.0.113.7)', hint: '' },
  digest: { title: 'Digest (22 characters)', hint: '' },
  header: {
    title: 'Header, such as x-api-key=k-123',
    hint: 'One * is a wildcard (x-api-key=k-*); rules then apply to every match.',
  },
  query: { title: 'Query parameter, such as key=k-123', hint: '' },
  cookie: { title: 'Cookie, such as sid=abc', hint: '' },
  form: { title: 'Form field, such as user=alice', hint: '' },
  json: { title: 'Member of a JSON body, such as /user/id=42', hint: '' },
  claim: {
    title: 'JWT claim, such as sub=alice',
    hint: 'One * is a wildcard (sub=acme-*); := for a number or boolean (id:=42); a JSON pointer for a nested claim (/account/plan=pro).',
  },
} as const satisfies Readonly<Record<CallerKind | 'digest', { readonly title: string; readonly hint: string }>>
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
