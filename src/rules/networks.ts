import ipaddr from 'ipaddr.js'

/** Networks, each with what is known of the addresses in it. To look one up takes a step for each length of a prefix. */
export class Networks<T> {
  readonly #ofIpv4 = new Family<T>()
  readonly #ofIpv6 = new Family<T>()

  /** @param network as `parseNetwork` writes it */
  add(network: string, known: T): void {
    const [address = '', prefix] = network.split('/')
    const words = parseWords(address)
    if (words) this.#familyOf(words).add(words, Number(prefix), known)
  }

  get isEmpty(): boolean {
    return this.#ofIpv4.isEmpty && this.#ofIpv6.isEmpty
  }

  /** Of all networks that hold an address, the smallest first. */
  of(address: string): readonly T[] {
    const words = parseWords(address)
    return words ? this.#familyOf(words).of(words) : []
  }

  #familyOf({ length }: Words): Family<T> {
    return length === 1 ? this.#ofIpv4 : this.#ofIpv6
  }
}

/** An address by 32 bits each: one of IPv4, four of IPv6. */
type Words = readonly number[]

class Family<T> {
  /** By the length of a prefix, longest first: what is known by the leading bits, to which a number is given for each word. */
  #lengths: readonly { readonly prefix: number; readonly known: Map<number | string, T[]> }[] = []

  get isEmpty(): boolean {
    return this.#lengths.length === 0
  }

  add(words: Words, prefix: number, entry: T): void {
    let length = this.#lengths.find((other) => other.prefix === prefix)
    if (!length) {
      length = { prefix, known: new Map() }
      this.#lengths = [...this.#lengths, length].sort((a, b) => b.prefix - a.prefix)
    }
    const bits = leading(words, prefix)
    const others = length.known.get(bits)
    if (others) others.push(entry)
    else length.known.set(bits, [entry])
  }

  of(words: Words): readonly T[] {
    const found: T[] = []
    for (const { prefix, known } of this.#lengths) {
      const entries = known.get(leading(words, prefix))
      if (entries) found.push(...entries)
    }
    return found
  }
}

/** A number if they are in the first word, as most are; else a text. */
function leading(words: Words, prefix: number): number | string {
  const first = masked(words[0] as number, prefix)
  if (prefix <= 32) return first
  let bits = `${first}`
  for (let index = 1; index * 32 < prefix; index++) bits += ` ${masked(words[index] as number, prefix - index * 32)}`
  return bits
}

function masked(word: number, bits: number): number {
  return bits >= 32 ? word : word & (-1 << (32 - bits))
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

/** Undefined for what is no address. An IPv4-mapped one is of IPv4. */
function parseWords(text: string): Words | undefined {
  if (!text.includes(':')) return parseIpv4Words(text)
  const groups = parseGroups(text)
  if (!groups) return undefined
  const word = (at: number) => ((groups[at] as number) << 16) | (groups[at + 1] as number)
  const words = [word(0), word(2), word(4), word(6)]
  const isMapped = words[0] === 0 && words[1] === 0 && words[2] === 0xffff
  return isMapped ? words.slice(3) : words
}

/** Eight of 16 bits. The library takes ten times as long for what Cloudflare sends. */
function parseGroups(text: string): readonly number[] | undefined {
  if (!USUAL_IPV6.test(text)) return ipaddr.IPv6.isValid(text) ? ipaddr.IPv6.parse(text).parts : undefined
  const gap = text.indexOf('::')
  const before = numbersIn(gap < 0 ? text : text.slice(0, gap))
  if (gap < 0) return before.length === 8 ? before : undefined
  const after = numbersIn(text.slice(gap + 2))
  while (before.length + after.length < 8) before.push(0)
  return [...before, ...after]
}

/** At most seven groups if some are left out. */
const USUAL_IPV6 =
  /^(?:(?:[\da-f]{1,4}:){7}[\da-f]{1,4}|(?=(?:[^:]*:){2,7}[^:]*$)(?:[\da-f]{1,4}:)+(?::[\da-f]{1,4})+)$/

function numbersIn(groups: string): number[] {
  return groups.split(':').map((group) => Number.parseInt(group, 16))
}

/** Four decimal numbers, as Cloudflare writes an address; no library is as strict and as fast. */
function parseIpv4Words(text: string): Words | undefined {
  let word = 0
  let octets = 0
  for (let at = 0; at <= text.length; octets++) {
    const end = text.indexOf('.', at)
    const octet = text.slice(at, end < 0 ? text.length : end)
    if (!/^(?:0|[1-9]\d{0,2})$/.test(octet) || Number(octet) > 255 || octets === 4) return undefined
    word = (word << 8) | Number(octet)
    at = end < 0 ? text.length + 1 : end + 1
  }
  return octets === 4 ? [word] : undefined
}
