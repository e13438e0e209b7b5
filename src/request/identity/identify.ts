import type { IdentitySource, MissingIdentity, Reading } from '../../model/policy.ts'
import type { ReceivedRequest } from '../received-request.ts'
import { readAuthorization } from './authorization.ts'
import { AMBIGUOUS, readField, readParameter } from './reading.ts'
import { formatSource } from './source.ts'

/** What a policy's sources are read from. */
export interface IdentityInput {
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
export async function readIdentity(
  sources: readonly IdentitySource[],
  subject: IdentityInput,
  missing: MissingIdentity,
  fold?: string,
): Promise<readonly string[] | Exclude<MissingIdentity, { kind: 'ip' }>> {
  const parts: string[] = []
  for (const source of sources) {
    let reading = await readIdentitySource(source, subject)
    if (fold && reading.kind === 'value') {
      const { foldReading } = await import('./fold.ts')
      reading = foldReading(source, reading.value, fold)
    }
    if (reading.kind === 'value') parts.push(formatSource(source), reading.value)
    else if (missing.kind === 'deny' || (missing.kind === 'skip' && reading.kind === 'none')) return missing
    else parts.push('ip', callerAddress(subject.request, subject.ipv6Prefix))
  }
  return parts
}

/** What a request says of one source. */
export function readIdentitySource(
  source: IdentitySource,
  { request, route, ipv6Prefix, readClaim }: IdentityInput,
): Reading | Promise<Reading> {
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
      return import('./body.ts').then(({ readFormField }) => readFormField(request, source.name))
    case 'cookie':
      return import('./cookie.ts').then(({ readCookie }) => readCookie(request.headers.get('Cookie'), source.name))
    case 'json':
      return import('./body.ts').then(({ readMember }) => readMember(request, source.path))
    case 'claim':
      return readClaim?.(source.path) ?? AMBIGUOUS
    case 'application':
      return source.tell(request.context as never)
  }
}

const UNKNOWN = 'unknown'

/**
 * The caller's address, where all that share an IPv6 prefix are one: a site gets at least a /64, and may use any
 * address in it. If the request itself says nothing about it, only `CF-Connecting-IP` is believed: Cloudflare sets it,
 * and a client can send any `X-Forwarded-For` it likes. Without an address, or if it is not valid, all callers share
 * one.
 * @param ipv6Prefix leading bits that count, 1 to 128
 */
export function callerAddress(request: Pick<ReceivedRequest, 'headers' | 'address'>, ipv6Prefix: number): string {
  const said = request.address === undefined ? request.headers.get('CF-Connecting-IP') : request.address
  const address = said?.trim() ?? ''
  if (address.includes(':')) return ipv6Network(address, ipv6Prefix)
  return /^\d{1,3}(?:\.\d{1,3}){3}$/.test(address) ? address : UNKNOWN
}

function ipv6Network(address: string, prefix: number): string {
  const url = `http://[${address}]`
  if (!URL.canParse(url)) return UNKNOWN
  // The URL parser writes an address in its one canonical form (RFC 5952).
  const [head = '', tail] = new URL(url).hostname.slice(1, -1).split('::')
  const before = head ? head.split(':') : []
  const after = tail ? tail.split(':') : []
  const zeros = Array<string>(8 - before.length - after.length).fill('0')
  const groups = [...before, ...zeros, ...after].map((group) => Number.parseInt(group, 16))
  return ipv4Mapped(groups) ?? `${masked(groups, prefix)}/${prefix}`
}

function masked(groups: readonly number[], prefix: number): string {
  const last = Math.ceil(prefix / 16)
  const kept = groups.slice(0, last).map((group, index) => {
    const bits = Math.min(16, prefix - 16 * index)
    return (group & (0xffff << (16 - bits)) & 0xffff).toString(16)
  })
  return kept.join(':') + (last < 8 ? '::' : '')
}

/** `::ffff:a.b.c.d` (RFC 4291 §2.5.5.2) is the IPv4 caller a.b.c.d. */
function ipv4Mapped(groups: readonly number[]): string | undefined {
  const [high = 0, low = 0] = groups.slice(6)
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff
  return isMapped ? [high >> 8, high & 255, low >> 8, low & 255].join('.') : undefined
}
