/** Reads the address of a caller, and its network. */
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
  if (!groups) return UNKNOWN
  const isIpv4 = groups.length === 2
  return isIpv4 ? groups.flatMap(toBytes).join('.') : `${maskGroups(groups, ipv6Prefix)}/${ipv6Prefix}`
}

/** Reads an IPv6 address in its canonical form (RFC 5952), which is that of the URL parser; undefined for anything else. */
export function formatIpv6(address: string): string | undefined {
  const url = `http://[${address}]`
  return /^[\da-f:.]+$/i.test(address) && URL.canParse(url) ? new URL(url).hostname.slice(1, -1) : undefined
}

/** Reads the groups of 16 bits of an IPv6 address, 2 if it is an IPv4-mapped one (RFC 4291 §2.5.5.2), or else 8. */
export function readIpv6Groups(address: string): readonly number[] | undefined {
  const canonical = formatIpv6(address)
  if (canonical === undefined) return undefined
  const [head = '', tail] = canonical.split('::')
  const before = head ? head.split(':') : []
  const after = tail ? tail.split(':') : []
  const zeros = Array<string>(8 - before.length - after.length).fill('0')
  const groups = [...before, ...zeros, ...after].map((group) => Number.parseInt(group, 16))
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff
  return isMapped ? groups.slice(6) : groups
}

function maskGroups(groups: readonly number[], prefix: number): string {
  const masked = groups.slice(0, Math.ceil(prefix / 16)).map((group, index) => {
    const spareBits = Math.max(0, 16 * (index + 1) - prefix)
    return ((group >> spareBits) << spareBits).toString(16)
  })
  return masked.join(':') + (masked.length < 8 ? '::' : '')
}

function toBytes(group: number): readonly number[] {
  return [group >> 8, group & 255]
}
