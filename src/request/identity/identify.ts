import type { IdentitySource, MissingIdentity, Reading } from '../../model/policy.ts'
import type { ReceivedRequest } from '../received-request.ts'
import { readAuthorization } from './authorization.ts'
import { AMBIGUOUS, readField, readParameter } from './reading.ts'
import { formatSource } from './source.ts'

export interface IdentityInput {
  readonly request: ReceivedRequest
  /** The policy's pattern that matched, or the method and canonical path. */
  readonly route: string
  /** Leading bits of an IPv6 address that count. */
  readonly ipv6Prefix: number
  readonly readClaim?: ((path: readonly string[]) => Reading | Promise<Reading>) | undefined
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
      const { foldReading } = await import('./fold.ts')
      reading = foldReading(source, reading.value, fold)
    }
    if (reading.kind === 'value') parts.push(formatSource(source), reading.value)
    else if (missing.kind === 'deny' || (missing.kind === 'skip' && reading.kind === 'none')) return missing
    else parts.push('ip', callerAddress(input.request, input.ipv6Prefix))
  }
  return parts
}

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
      // Few policies need these imports.
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
 * Reads the caller's address. All that share an IPv6 prefix are one caller: a site gets at least a /64, and may use any
 * address in it. Without `request.address`, only `CF-Connecting-IP` is believed: Cloudflare sets it, and a client can
 * send any `X-Forwarded-For`. All callers without a valid address share one.
 * @param ipv6Prefix leading bits that count, 1 to 128
 */
export function callerAddress(request: Pick<ReceivedRequest, 'headers' | 'address'>, ipv6Prefix: number): string {
  const text = request.address === undefined ? request.headers.get('CF-Connecting-IP') : request.address
  const address = text?.trim() ?? ''
  if (address.includes(':')) return formatIpv6Network(address, ipv6Prefix)
  return /^\d{1,3}(?:\.\d{1,3}){3}$/.test(address) ? address : UNKNOWN
}

function formatIpv6Network(address: string, prefix: number): string {
  const url = `http://[${address}]`
  if (!URL.canParse(url)) return UNKNOWN
  // The URL parser writes an address in its one canonical form (RFC 5952).
  const [head = '', tail] = new URL(url).hostname.slice(1, -1).split('::')
  const before = head ? head.split(':') : []
  const after = tail ? tail.split(':') : []
  const zeros = Array<string>(8 - before.length - after.length).fill('0')
  const groups = [...before, ...zeros, ...after].map((group) => Number.parseInt(group, 16))
  return unmapIpv4(groups) ?? `${maskGroups(groups, prefix)}/${prefix}`
}

function maskGroups(groups: readonly number[], prefix: number): string {
  const last = Math.ceil(prefix / 16)
  const masked = groups.slice(0, last).map((group, index) => {
    const bits = Math.min(16, prefix - 16 * index)
    return (group & (0xffff << (16 - bits)) & 0xffff).toString(16)
  })
  return masked.join(':') + (last < 8 ? '::' : '')
}

/** Reads `::ffff:a.b.c.d` (RFC 4291 §2.5.5.2) as the IPv4 address a.b.c.d. */
function unmapIpv4(groups: readonly number[]): string | undefined {
  const [high = 0, low = 0] = groups.slice(6)
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff
  return isMapped ? [high >> 8, high & 255, low >> 8, low & 255].join('.') : undefined
}
