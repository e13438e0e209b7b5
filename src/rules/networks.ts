import ipaddr from 'ipaddr.js'
import { EntryGroups } from './wildcards.ts'

/** An address by 32 bits each: one word for IPv4, four for IPv6. */
type Words = readonly number[]

/** Networks by the lengths of their prefixes. */
export class Networks<T> {
  readonly #ipv4 = new EntryGroups<Words, T>()
  readonly #ipv6 = new EntryGroups<Words, T>()

  /** @param network as `parseNetwork` writes it */
  add(network: string, entry: T): void {
    const [address = '', prefix] = network.split('/')
    const words = parseWords(address)
    const width = Number(prefix)
    const readKey = (words: Words) => readLeadingBits(words, width)
    if (words) this.#selectFamily(words).add(words, entry, { name: width, width, readKey })
  }

  get isEmpty(): boolean {
    return this.#ipv4.isEmpty && this.#ipv6.isEmpty
  }

  /** Finds the entries of all networks that hold an address, the smallest first. */
  find(address: string): readonly T[] {
    const words = parseWords(address)
    return words ? this.#selectFamily(words).find(words) : []
  }

  #selectFamily({ length }: Words): EntryGroups<Words, T> {
    return length === 1 ? this.#ipv4 : this.#ipv6
  }
}

/** A number if the bits are in the first word, as most are; else a text. */
function readLeadingBits(words: Words, prefix: number): number | string {
  const first = maskWord(words[0] as number, prefix)
  if (prefix <= 32) return first
  let bits = `${first}`
  for (let index = 1; index * 32 < prefix; index++) bits += ` ${maskWord(words[index] as number, prefix - index * 32)}`
  return bits
}

function maskWord(word: number, bits: number): number {
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

/** Reads an IPv4-mapped address as one of IPv4. */
function parseWords(text: string): Words | undefined {
  if (!text.includes(':')) return parseIpv4Words(text)
  const groups = parseGroups(text)
  if (!groups) return undefined
  const word = (at: number) => ((groups[at] as number) << 16) | (groups[at + 1] as number)
  const words = [word(0), word(2), word(4), word(6)]
  const isMapped = words[0] === 0 && words[1] === 0 && words[2] === 0xffff
  return isMapped ? words.slice(3) : words
}

/** Eight groups of 16 bits. The library takes ten times as long for what Cloudflare sends. */
function parseGroups(text: string): readonly number[] | undefined {
  if (!USUAL_IPV6.test(text)) return ipaddr.IPv6.isValid(text) ? ipaddr.IPv6.parse(text).parts : undefined
  const gap = text.indexOf('::')
  const before = parseHex(gap < 0 ? text : text.slice(0, gap))
  if (gap < 0) return before.length === 8 ? before : undefined
  const after = parseHex(text.slice(gap + 2))
  while (before.length + after.length < 8) before.push(0)
  return [...before, ...after]
}

/** With `::`, there are at most seven groups. */
const USUAL_IPV6 =
  /^(?:(?:[\da-f]{1,4}:){7}[\da-f]{1,4}|(?=(?:[^:]*:){2,7}[^:]*$)(?:[\da-f]{1,4}:)+(?::[\da-f]{1,4})+)$/

function parseHex(groups: string): number[] {
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
