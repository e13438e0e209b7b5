/** Callers as operators name them: read by the code that reads the options of the command. */
import { collectClaims, readClaim, readPair } from '../src/request/caller/caller-in-text.ts'
import type { CallerKind } from '../src/request/identity/source.ts'
import { createTargetInput } from '../src/rules/target.ts'

/** What a caller may be known by. */
export const KINDS = {
  token: { title: 'Token (sent as Authorization)', hint: '' },
  ip: { title: 'Address, such as 203.0.113.7', hint: '' },
  digest: { title: 'Digest (22 letters, as keys and logs have it)', hint: '' },
  header: {
    title: 'Header, such as x-api-key=k-123',
    hint: 'With one *, such as x-api-key=k-*, rules hold for all whose value is like that.',
  },
  query: { title: 'Query, such as key=k-123', hint: '' },
  cookie: { title: 'Cookie, such as sid=abc', hint: '' },
  form: { title: 'Field of a form, such as user=alice', hint: '' },
  json: { title: 'Member of a JSON body, such as /user/id=42', hint: '' },
  claim: {
    title: 'Claim of its token, such as sub=alice',
    hint: 'With :=, a number, true or false, such as id:=42. With a pointer, a claim within another, such as /account/plan=pro. With one *, such as sub=acme-*, rules hold for all whose value is like that.',
  },
} as const satisfies Readonly<Record<CallerKind | 'digest', { readonly title: string; readonly hint: string }>>
export type Kind = keyof typeof KINDS

export interface Named {
  /** Whose use is asked for; undefined if it is a pattern, which is no caller. */
  readonly caller: object | undefined
  /** Whom rules are about. */
  readonly target: object
}

/** @throws {CallerError} */
export function named(kind: Kind, text: string): Named {
  if (kind === 'token' || kind === 'ip' || kind === 'digest')
    return { caller: { [kind]: text }, target: { [kind]: text } }
  if (kind === 'claim') {
    const { name, value } = readClaim(text)
    return unlessPattern({ claim: collectClaims(text) }, createTargetInput(kind, name, value))
  }
  const [name, value] = readPair(text)
  return unlessPattern({ [kind]: { [name]: value } }, createTargetInput(kind, name, value))
}

function unlessPattern(caller: object, target: object): Named {
  return { caller: 'by' in target ? undefined : caller, target }
}
