import { formatIpv6, readIpv6Groups, toBytes, unmapIpv4 } from '../request/identity/address.ts'
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
  const [, address = '', prefix = ''] = /^([\da-f:.]+)\/([1-9]\d{0,2})$/i.exec(text) ?? []
  const bytes = parseBytes(address)
  const width = Number(prefix)
  // Networks of IPv4-mapped addresses are none: such addresses count as those of IPv4.
  if (bytes?.length !== (address.includes(':') ? 16 : 4) || width > 8 * bytes.length) return undefined
  const beyond = bytes.some((byte, at) => (byte << Math.min(8, Math.max(0, width - 8 * at))) & 255)
  return beyond ? undefined : `${formatIpv6(address) ?? address}/${width}`
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
