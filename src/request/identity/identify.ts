import type { Missing, Reading, Source } from '../../model/policy.ts'
import type { ReceivedRequest } from '../received-request.ts'
import { callerAddress } from './address.ts'
import { readAuthorization } from './authorization.ts'
import { readParameter } from './parameters.ts'
import { NONE, readText, SPOILT } from './reading.ts'

/** What a policy's sources are read from. */
export interface Subject {
  readonly request: ReceivedRequest
  /** What `route` stands for: the policy's pattern that matched, or the method and canonical path. */
  readonly route: string
  /** Leading bits of an IPv6 address that count. */
  readonly ipv6Prefix: number
  /** Reads a claim of its token; left out: no token can be verified. */
  readonly readClaim?: ((path: readonly string[]) => Reading | Promise<Reading>) | undefined
}

/**
 * The values that tell this caller from others, each under its kind, so that no value of one kind passes for another.
 * @param fold what spellings of one value are the same, as in a policy
 * @returns what `missing` says of a caller that lacks one of them, unless it is to be counted by address
 */
export async function identify(
  sources: readonly Source[],
  subject: Subject,
  missing: Missing,
  fold?: string,
): Promise<readonly string[] | Exclude<Missing, { kind: 'ip' }>> {
  const parts: string[] = []
  for (const source of sources) {
    let reading = await read(source, subject)
    if (fold && reading.kind === 'value') {
      const { foldReading } = await import('./fold.ts')
      reading = foldReading(source, reading.value, fold)
    }
    if (reading.kind === 'value')
      parts.push('name' in source ? `${source.kind}:${source.name}` : source.kind, reading.value)
    else if (missing.kind === 'deny' || (missing.kind === 'skip' && reading.kind === 'none')) return missing
    else parts.push('ip', callerAddress(subject.request, subject.ipv6Prefix))
  }
  return parts
}

/** What a request says of one source. */
export function read(source: Source, { request, route, ipv6Prefix, readClaim }: Subject): Reading | Promise<Reading> {
  switch (source.kind) {
    case 'token':
      return readAuthorization(request.headers.get('Authorization'))
    case 'ip':
      return { kind: 'value', value: callerAddress(request, ipv6Prefix) }
    case 'route':
      return { kind: 'value', value: route }
    case 'global':
      return { kind: 'value', value: '' }
    case 'header':
      return readField(request.headers.get(source.name))
    case 'query':
      return readParameter(new URL(request.url).search.slice(1), source.name)
    case 'form':
      // Loaded when a policy asks for it, as few do.
      return import('./form.ts').then(({ readFormField }) => readFormField(request, source.name))
    case 'cookie':
      return import('./cookie.ts').then(({ readCookie }) => readCookie(request.headers.get('Cookie'), source.name))
    case 'json':
      return import('./json.ts').then(({ readMember }) => readMember(request, source.path))
    case 'claim':
      return readClaim?.(source.path) ?? SPOILT
    case 'application':
      return source.tell(request.context as never)
  }
}

/** With a comma it may be several fields that the runtime has joined, of which APIs take the first or the last. */
function readField(field: string | null): Reading {
  if (field === null) return NONE
  return field.includes(',') ? SPOILT : readText(field)
}
