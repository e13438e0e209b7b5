import ipaddr from 'ipaddr.js'
import { EntryGroups } from './wildcards.ts'

/** The bytes of an address: 4 or 16. */
type Bytes = readonly number[]

export class Networks<T> {
  readonly #groups = new EntryGroups<Bytes, T>()

  /** @param network as `parseNetwork` writes it */
  add(network: string, entry: T): void {
    const [address = '', prefix] = network.split('/')
    const bytes = parseBytes(address) as Bytes
    const width = Number(prefix)
    this.#groups.add(bytes, entry, {
      name: `${bytes.length} ${width}`,
      width,
      readKey: (other) => (other.length === bytes.length ? readLeadingBits(other, width) : undefined),
    })
  }

  get isEmpty(): boolean {
    return this.#groups.isEmpty
  }

  /** Finds the entries of all networks that hold an address, the smallest first. */
  find(address: string): readonly T[] {
    const bytes = parseBytes(address)
    return bytes ? this.#groups.find(bytes) : []
  }
}

function readLeadingBits(bytes: Bytes, prefix: number): string {
  const whole = Math.floor(prefix / 8)
  return `${bytes.slice(0, whole)} ${(bytes[whole] ?? 0) >> (8 - (prefix % 8))}`
}

export const NETWORK_EXPECTED =
  'a network without bits beyond its prefix, such as 203.0.113.0/24 or 2001:db8::/32, the prefix at least 1'

/** A network (RFC 4632 §3.1, RFC 4291 §2.3) as it is written in one way only; undefined for anything else. */
export function parseNetwork(text: string): string | undefined {
  const isIpv4 = ipaddr.IPv4.isValidCIDRFourPartDecimal(text)
  if (!isIpv4 && (text.includes('%') || !ipaddr.IPv6.isValidCIDR(text))) return undefined
  const [address, prefix] = ipaddr.parseCIDR(text)
  const { IPv4, IPv6 } = ipaddr
  const network = isIpv4 ? IPv4.networkAddressFromCIDR(text) : IPv6.networkAddressFromCIDR(text)
  const isMapped = address instanceof IPv6 && address.isIPv4MappedAddress()
  return prefix >= 1 && !isMapped && `${address}` === `${network}` ? `${address}/${prefix}` : undefined
}

/** Reads an IPv4-mapped address as one of IPv4. */
function parseBytes(text: string): Bytes | undefined {
  const { IPv4, IPv6 } = ipaddr
  if (!text.includes(':')) return IPv4.isValidFourPartDecimal(text) ? IPv4.parse(text).toByteArray() : undefined
  return IPv6.isValid(text) ? ipaddr.process(text).toByteArray() : undefined
}
