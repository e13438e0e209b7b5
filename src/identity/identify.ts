import type { Missing } from '../policy/policy.ts'
import { callerAddress } from './address.ts'
import { normalizeAuthorization } from './authorization.ts'
import { formField } from './form.ts'
import { onlyValue } from './only-value.ts'
import type { Source } from './source.ts'

/** What a policy's sources are read from. */
export interface Subject {
  readonly request: Request
  /** What `route` stands for: the policy's pattern that matched, or the method and canonical path. */
  readonly route: string
  /** Leading bits of an IPv6 address that count. */
  readonly ipv6Prefix: number
}

/**
 * The values that tell this caller from others, each under its kind, so that no value of one kind passes for another.
 * @returns what `missing` says of a caller that lacks one of them, unless it is to be counted by address
 */
export async function identify(
  sources: readonly Source[],
  subject: Subject,
  missing: Missing,
): Promise<readonly string[] | Exclude<Missing, { kind: 'ip' }>> {
  const parts: string[] = []
  for (const source of sources) {
    const value = await read(source, subject)
    if (value !== undefined) parts.push('name' in source ? `${source.kind}:${source.name}` : source.kind, value)
    else if (missing.kind === 'deny' || (missing.kind === 'skip' && !isSpoilt(source, subject.request))) return missing
    else parts.push('ip', callerAddress(subject.request.headers, subject.ipv6Prefix))
  }
  return parts
}

/** There, but not to be read. Who spoils what would identify him must not leave the policy by it. */
function isSpoilt(source: Source, { headers, url }: Request): boolean {
  switch (source.kind) {
    case 'token':
      return /\S\s+\S/.test(headers.get('Authorization') ?? '')
    case 'query':
      return new URL(url).searchParams.getAll(source.name).length > 1
    default:
      return false
  }
}

function read(
  source: Source,
  { request, route, ipv6Prefix }: Subject,
): string | undefined | Promise<string | undefined> {
  switch (source.kind) {
    case 'token':
      return normalizeAuthorization(request.headers.get('Authorization'))
    case 'ip':
      return callerAddress(request.headers, ipv6Prefix)
    case 'route':
      return route
    case 'global':
      return ''
    case 'header':
      return request.headers.get(source.name) || undefined
    case 'query':
      return onlyValue(new URL(request.url).searchParams, source.name)
    case 'form':
      return formField(request, source.name)
  }
}
