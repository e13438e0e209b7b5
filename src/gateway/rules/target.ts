/** Whom a rule is about. */
import {
  CALLER_KIND_NAMES,
  formatKinds,
  type IdentitySource,
  isCallerKind,
  isInBody,
  type NamedKind,
  parseBy,
  SOURCE_KINDS,
} from '../../core/model/identity-source.ts'
import { createDigest } from '../../core/runtime/digest.ts'
import { type IdentityInput, readIdentity } from '../../http/request/identity/identify.ts'
import type { ReceivedRequest } from '../../http/request/received-request.ts'

/** Exactly one of: `digest`, alone or with `by`; `by` and `value`; `cidr`; `country`; `asn`. */
export interface RuleTarget {
  readonly by?: string | undefined
  /** The caller's digest; without `by`, the one that keys and logs name it by. */
  readonly digest?: string | undefined
  /** A value with one `*`, of a header or claim. */
  readonly value?: string | undefined
  readonly cidr?: string | undefined
  readonly country?: string | undefined
  readonly asn?: number | undefined
}

export const BY_EXPECTED = formatKinds(CALLER_KIND_NAMES.filter((kind) => !SOURCE_KINDS[kind].isInBody))
export const BY_OF_VALUE_EXPECTED = formatKinds(CALLER_KIND_NAMES.filter((kind) => SOURCE_KINDS[kind].isNamedInPart))

/** @returns undefined for anything but what `BY_EXPECTED` says */
export function parseKnownBy(text: string): IdentitySource | undefined {
  const [source, ...others] = parseBy(text) ?? []
  const isKnown = source && others.length === 0 && isCallerKind(source.kind) && !SOURCE_KINDS[source.kind].isInBody
  return isKnown ? source : undefined
}

export function isNamedInPart({ kind }: Pick<IdentitySource, 'kind'>): boolean {
  return isCallerKind(kind) && SOURCE_KINDS[kind].isNamedInPart === true
}

/** 128 bits in base64url. */
export const DIGEST = /^[\w-]{21}[AQgw]$/
export const DIGEST_EXPECTED = 'the digest of a caller, 22 characters, as keys and logs have it'

export function formatTargetKey({ by, digest, value, cidr, country, asn }: RuleTarget): string {
  return JSON.stringify([by, digest, value, cidr, country, asn])
}

export interface DigestOptions {
  readonly ipv6Prefix: number
  readonly identitySecret: string | undefined
  /** Reads a claim of the request's token; left out: no token can be verified. */
  readonly readClaim?: IdentityInput['readClaim']
  /** How the policy folds the value; if left out, the value is hashed as it was sent. */
  readonly fold?: string | undefined
}

/**
 * Names a caller by its digest, so that the rule set holds nothing that it sends; by nothing else if it is in a body.
 * @returns undefined if the request does not have it, or if it is ambiguous
 */
export async function createRuleTarget(
  by: string,
  request: ReceivedRequest,
  { ipv6Prefix, identitySecret, readClaim, fold }: DigestOptions,
): Promise<RuleTarget | undefined> {
  const [source, ...others] = parseBy(by) ?? []
  if (!source || others.length > 0 || !isCallerKind(source.kind)) return undefined
  const missing = { kind: 'deny', status: 401 } as const
  const input = { request, route: '', ipv6Prefix, readClaim, context: { waitUntil() {} } }
  const identity = await readIdentity([source], input, missing, fold)
  if ('kind' in identity || (source.kind === 'ip' && identity[1] === 'unknown')) return undefined
  const digest = createDigest(identitySecret)(identity)
  return isInBody(source) ? { digest } : { by: identity[0], digest }
}

/** Makes the target of a block, an allow or an override: about one caller, or about all whose value matches a `*`. */
export function createTargetInput(kind: NamedKind, name: string, value: unknown): object {
  const isPattern = SOURCE_KINDS[kind].isNamedInPart && typeof value === 'string' && value.includes('*')
  if (!isPattern) return { [kind]: { [name]: value } }
  return { by: `${kind}:${kind === 'header' ? name.toLowerCase() : name}`, value }
}

export function formatTarget({ by, digest, value, cidr, country, asn }: RuleTarget): string {
  if (cidr !== undefined) return cidr
  if (country !== undefined) return `country ${country}`
  if (asn !== undefined) return `AS${asn}`
  return [by, value ?? digest].filter((part) => part !== undefined).join(' ')
}
