import { formatIpv6, readIpv6Groups, toBytes, unmapIpv4 } from '../request/identity/address.ts'

/** The bytes of an address: 4 or 16. */
type Bytes = readonly number[]

export const NETWORK_EXPECTED =
  'a network without bits beyond its prefix, such as 203.0.113.0/24 or 2001:db8::/32, the prefix at least 1'

/** A network (RFC 4632 §3.1, RFC 4291 §2.3) as it is written in one way only; undefined for anything else. */
export function parseNetwork(text: string): string | undefined {
  const [, address = '', prefix = ''] = /^([\da-f:.]+)\/([1-9]\d{0,2})$/i.exec(text) ?? []
  const bytes = parseBytes(address)
  const width = Number(prefix)
  // Networks of IPv4-mapped addresses are none: such addresses count as those of IPv4.
  if (bytes?.length !== (address.includes(':') ? 16 : 4) || width > 8 * bytes.length) return undefined
  const beyond = bytes.some((byte, at) => (byte << Math.min(8, Math.max(0, width - 8 * at))) & 255)
  return beyond ? undefined : `${formatIpv6(address) ?? address}/${width}`
}

/** Writes a network as a wildcard for its addresses, as `formatBits` writes them. @param network a parsed one */
export function toWildcard(network: string): string {
  const [address = '', prefix] = network.split('/')
  return `${formatBits(address)?.slice(0, 1 + Number(prefix))}*`
}

const BITS = Array.from({ length: 256 }, (_, byte) => byte.toString(2).padStart(8, '0'))

/** Writes an address as `4` or `6` and its bits; undefined for anything else. */
export function formatBits(address: string): string | undefined {
  const bytes = parseBytes(address)
  return bytes && `${bytes.length === 4 ? 4 : 6}${bytes.map((byte) => BITS[byte]).join('')}`
}

/** Reads an IPv4-mapped address as one of IPv4. */
function parseBytes(text: string): Bytes | undefined {
  if (!text.includes(':')) return parseIpv4(text)
  const groups = readIpv6Groups(text)
  return groups && (unmapIpv4(groups) ?? toBytes(groups))
}

function parseIpv4(text: string): Bytes | undefined {
  const bytes = text.split('.').map((part) => (/^(?:0|[1-9]\d{0,2})$/.test(part) ? Number(part) : 256))
  return bytes.length === 4 && bytes.every((byte) => byte < 256) ? bytes : undefined
}
