/** Networks in one spelling, and which of them hold an address. */
import { formatIpv6, readIpv6Groups } from '../../http/request/identity/address.ts'

export const NETWORK_EXPECTED =
  'a network without bits beyond its prefix, such as 203.0.113.0/24 or 2001:db8::/32, the prefix at least 1'

/** A network (RFC 4632 §3.1, RFC 4291 §2.3) as it is written in one way only; undefined for anything else. */
export function parseNetwork(text: string): string | undefined {
  const [, address = '', prefix = ''] = /^([\da-f:.]+)\/([1-9]\d{0,2})$/i.exec(text) ?? []
  const [family, ...bits] = formatBits(address) ?? ''
  const width = Number(prefix)
  // Networks of IPv4-mapped addresses are none: such addresses count as those of IPv4.
  if (family !== (address.includes(':') ? '6' : '4') || width > bits.length) return undefined
  return bits.includes('1', width) ? undefined : `${formatIpv6(address) ?? address}/${width}`
}

/** Writes a network as a wildcard for its addresses, as `formatBits` writes them. @param network a parsed one */
export function toWildcard(network: string): string {
  const [address = '', prefix] = network.split('/')
  return `${formatBits(address)?.slice(0, 1 + Number(prefix))}*`
}

/** Writes an address as `4` or `6` and its bits; undefined for anything else. */
export function formatBits(address: string): string | undefined {
  if (!address.includes(':')) {
    const bytes = address.split('.').map((part) => (/^(?:0|[1-9]\d{0,2})$/.test(part) ? Number(part) : 256))
    return bytes.length === 4 && bytes.every((byte) => byte < 256) ? `4${joinBits(bytes, 8)}` : undefined
  }
  const groups = readIpv6Groups(address)
  return groups && `${groups.length === 2 ? 4 : 6}${joinBits(groups, 16)}`
}

function joinBits(numbers: readonly number[], width: number): string {
  return numbers.map((number) => number.toString(2).padStart(width, '0')).join('')
}
