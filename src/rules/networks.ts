import ipaddr from 'ipaddr.js'

/** Networks, each with what is known of the addresses in it. To look one up takes a step for each length of a prefix. */
export class Networks<T> {
  /** By the leading bits of an address, after a letter for its family. */
  readonly #known = new Map<string, T[]>()
  /** Longest first. */
  #lengths: readonly number[] = []

  /** @param network as `parseNetwork` writes it */
  add(network: string, known: T): void {
    const [address = '', prefix] = network.split('/')
    const bits = bitsOf(address)?.slice(0, 1 + Number(prefix)) ?? ''
    const others = this.#known.get(bits)
    if (others) others.push(known)
    else this.#known.set(bits, [known])
    if (!this.#lengths.includes(bits.length)) this.#lengths = [...this.#lengths, bits.length].sort((a, b) => b - a)
  }

  get isEmpty(): boolean {
    return this.#known.size === 0
  }

  /** Of all networks that hold an address, the smallest first. */
  of(address: string): readonly T[] {
    const bits = bitsOf(address)
    const found: T[] = []
    if (bits === undefined) return found
    for (const length of this.#lengths) {
      const known = length <= bits.length ? this.#known.get(bits.slice(0, length)) : undefined
      if (known) found.push(...known)
    }
    return found
  }
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

/** A letter for the family, and its bits; undefined for what is no address. An IPv4-mapped one is of IPv4. */
function bitsOf(text: string): string | undefined {
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return `4${binary(ipaddr.IPv4.parse(text).octets, 8)}`
  if (!ipaddr.IPv6.isValid(text)) return undefined
  const address = ipaddr.IPv6.parse(text)
  if (!address.isIPv4MappedAddress()) return `6${binary(address.parts, 16)}`
  return `4${binary(address.toIPv4Address().octets, 8)}`
}

function binary(numbers: readonly number[], digits: number): string {
  return numbers.map((number) => number.toString(2).padStart(digits, '0')).join('')
}
