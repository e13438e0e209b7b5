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

const OF_OCTET = Array.from({ length: 256 }, (_, octet) => octet.toString(2).padStart(8, '0'))

/** A letter for the family, and its bits; undefined for what is no address. An IPv4-mapped one is of IPv4. */
function bitsOf(text: string): string | undefined {
  const ofIpv4 = bitsOfIpv4(text)
  if (ofIpv4 !== undefined || !text.includes(':')) return ofIpv4
  if (!ipaddr.IPv6.isValid(text)) return undefined
  const bytes = ipaddr.IPv6.parse(text).toByteArray()
  const isMapped = bytes.slice(0, 12).every((byte, index) => byte === (index < 10 ? 0 : 255))
  return isMapped ? `4${binary(bytes.slice(12))}` : `6${binary(bytes)}`
}

/** Four decimal numbers, as Cloudflare writes an address; no library is as strict and as fast. */
function bitsOfIpv4(text: string): string | undefined {
  if (!/^\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(text)) return undefined
  const octets = text.split('.')
  return octets.every((octet) => octet === String(Number(octet)) && Number(octet) < 256)
    ? `4${binary(octets.map(Number))}`
    : undefined
}

function binary(bytes: readonly number[]): string {
  let bits = ''
  for (const byte of bytes) bits += OF_OCTET[byte]
  return bits
}
