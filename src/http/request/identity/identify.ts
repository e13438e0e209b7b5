/** Reads the identity of a request for the sources of a policy. */
import { formatSource, type IdentitySource, type Reading } from '../../../core/model/identity-source.ts'
import type { MissingIdentity } from '../../../core/model/policy.ts'
import { createLoader } from '../../../core/runtime/create-loader.ts'
import { readCallerAddress } from './address.ts'
import { readAuthorization } from './authorization.ts'
import type { ClaimReader } from './claims.ts'
import { AMBIGUOUS, readField, readQueryParameter } from './reading.ts'
import type { PartInput } from './request-parts.ts'

export interface IdentityInput extends PartInput {
  /** The policy's pattern that matched, or the method and canonical path. */
  readonly route: string
  /** Leading bits of an IPv6 address that count. */
  readonly ipv6Prefix: number
  readonly readClaim?: ClaimReader | undefined
  /** The same for all readings of a request. */
  readonly context: Parameters<ClaimReader>[2]
}

/** Reads the values of all sources, each after its kind, so that a value of one kind equals none of another. */
export async function readIdentity(
  sources: readonly IdentitySource[],
  input: IdentityInput,
  missing: MissingIdentity,
  fold?: string,
): Promise<readonly string[] | Exclude<MissingIdentity, { kind: 'ip' }>> {
  const parts: string[] = []
  for (const source of sources) {
    let reading = await readIdentitySource(source, input)
    if (fold && reading.kind === 'value') {
      const { foldReading } = await loadFold()
      reading = foldReading(source, reading.value, fold)
    }
    if (reading.kind === 'value') parts.push(formatSource(source), reading.value)
    else if (missing.kind === 'deny' || (missing.kind === 'skip' && reading.kind === 'none')) return missing
    else parts.push('ip', readCallerAddress(input.request, input.ipv6Prefix))
  }
  return parts
}

// Few policies need these.
const loadFold = createLoader(() => import('./fold.ts'))
const loadParts = createLoader(() => import('./request-parts.ts'))

export function readIdentitySource(source: IdentitySource, input: IdentityInput): Reading | Promise<Reading> {
  const { request, route, path, ipv6Prefix, readClaim, mergesParameters, context } = input
  switch (source.kind) {
    case 'token':
      return readAuthorization(request.headers.get('Authorization'))
    case 'ip':
      return { kind: 'value', value: readCallerAddress(request, ipv6Prefix) }
    case 'route':
      return { kind: 'value', value: route }
    case 'global':
      return { kind: 'value', value: '' }
    case 'header':
      return readField(request.headers.get(source.name))
    case 'query':
      // Most requests have no other place, and need none of the code.
      if (!mergesParameters || !(request.body || path || request.headers.has('Cookie')))
        return readQueryParameter(request.url, source.name)
      return loadParts().then(({ readPart }) => readPart('query', [source.name], input))
    case 'form':
    case 'cookie':
    case 'json': {
      const { kind, name } = source
      return loadParts().then(({ readPart }) => readPart(kind, kind === 'json' ? source.path : [name], input))
    }
    case 'claim':
      return readClaim?.(source.path, request.headers.get('Authorization'), context) ?? AMBIGUOUS
    case 'application':
      return source.tell(request.context as never)
  }
}
