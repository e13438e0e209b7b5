import type { ReceivedRequest } from '../received-request.ts'

const UNKNOWN = 'unknown'

/**
 * Reads the caller's address as it was sent. Without `request.address`, only `CF-Connecting-IP` is believed: Cloudflare
 * sets it, and a client can send any `X-Forwarded-For`.
 */
export function readAddress({ headers, address }: Pick<ReceivedRequest, 'headers' | 'address'>): string | null {
  return address === undefined ? headers.get('CF-Connecting-IP') : address
}

/** @param ipv6Prefix leading bits that count, 1 to 128 */
export function readCallerAddress(request: Pick<ReceivedRequest, 'headers' | 'address'>, ipv6Prefix: number): string {
  return formatCallerAddress(readAddress(request) ?? '', ipv6Prefix)
}

/**
 * Writes what a caller is known by. All that share an IPv6 prefix are one caller: a site gets at least a /64, and may use
 * any address in it. All callers without a valid address share one.
 */
export function formatCallerAddress(text: string, ipv6Prefix: number): string {
  const address = text.trim()
  if (!address.includes(':')) return /^\d{1,3}(?:\.\d{1,3}){3}$/.test(address) ? address : UNKNOWN
  const groups = readIpv6Groups(address)
  return groups ? (unmapIpv4(groups)?.join('.') ?? `${maskGroups(groups, ipv6Prefix)}/${ipv6Prefix}`) : UNKNOWN
}

/** Reads an IPv6 address in its canonical form (RFC 5952), which is that of the URL parser; undefined for anything else. */
export function formatIpv6(address: string): string | undefined {
  const url = `http://[${address}]`
  return /^[\da-f:.]+$/i.test(address) && URL.canParse(url) ? new URL(url).hostname.slice(1, -1) : undefined
}

/** Reads the eight groups of 16 bits of an IPv6 address; undefined for anything else. */
export function readIpv6Groups(address: string): readonly number[] | undefined {
  const canonical = formatIpv6(address)
  if (canonical === undefined) return undefined
  const [head = '', tail] = canonical.split('::')
  const before = head ? head.split(':') : []
  const after = tail ? tail.split(':') : []
  const zeros = Array<string>(8 - before.length - after.length).fill('0')
  return [...before, ...zeros, ...after].map((group) => Number.parseInt(group, 16))
}

function maskGroups(groups: readonly number[], prefix: number): string {
  const last = Math.ceil(prefix / 16)
  const masked = groups.slice(0, last).map((group, index) => {
    const bits = Math.min(16, prefix - 16 * index)
    return (group & (0xffff << (16 - bits)) & 0xffff).toString(16)
  })
  return masked.join(':') + (last < 8 ? '::' : '')
}

/** The bytes of the IPv4 address a.b.c.d, from `::ffff:a.b.c.d` (RFC 4291 §2.5.5.2). */
export function unmapIpv4(groups: readonly number[]): readonly number[] | undefined {
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff
  return isMapped ? toBytes(groups.slice(6)) : undefined
}

export function toBytes(groups: readonly number[]): readonly number[] {
  return groups.flatMap((group) => [group >> 8, group & 255])
}
