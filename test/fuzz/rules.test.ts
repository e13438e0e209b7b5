import fc from 'fast-check'
import ipaddr from 'ipaddr.js'
import { expect } from 'vitest'
import { OptionError } from '../../src/core/options/option-error.ts'
import { parseRules, type Rules, readRules } from '../../src/gateway/rules/document.ts'
import { formatBits, parseNetwork, toWildcard } from '../../src/gateway/rules/networks.ts'
import { RuleIndex } from '../../src/gateway/rules/rule-index.ts'
import { WILDCARD, Wildcards } from '../../src/gateway/rules/wildcards.ts'
import { fuzz } from './fuzz.ts'

const DIGEST = 'AAAAAAAAAAAAAAAAAAAAAA'

/** Values that are right, nearly right, or of any kind. */
const part = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.constantFrom('token', 'ip', 'header:x-a', 'claim:sub', 'route', DIGEST, 'a*', '10.0.0.0/8'),
  },
  { weight: 3, arbitrary: fc.constantFrom('DE', 64500, 403, 2, true, '2027-01-01T00:00:00Z', '5/1m', ['default']) },
  fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<unknown>,
)
const name = fc.constantFrom(
  ...['by', 'digest', 'value', 'cidr', 'country', 'asn', 'status', 'reason', 'until'],
  ...['limits', 'multiplier', 'unlimited', 'policies', '__proto__', 'constructor', 'x'],
)
const entry = fc.oneof(fc.dictionary(name, part, { maxKeys: 4 }), part)
const list = fc.oneof(fc.array(entry, { maxLength: 4 }), part)
const input = fc.oneof(
  fc.dictionary(fc.constantFrom('blocks', 'allows', 'overrides', 'policies', '__proto__', 'x'), list),
  part,
)

function createCharges(given: unknown): Rules | undefined {
  try {
    return readRules(given)
  } catch (error) {
    expect(error).toBeInstanceOf(OptionError)
    expect((error as Error).message).toMatch(/^rules[.[:]/)
    return undefined
  }
}

const field = fc.oneof(fc.constantFrom('a', '10.1.2.3', 'Bearer x', '::ffff:10.0.0.1', '2001:db8::1%1'), fc.string())

fuzz(
  'whatever a document says, it is refused with its place, or can be written, read and followed',
  4_000,
  fc.asyncProperty(input, fc.record({ value: field, cf: fc.anything() }), async (given, { value, cf }) => {
    const rules = createCharges(given)
    if (!rules) return
    expect(parseRules(JSON.stringify(rules))).toEqual(rules)
    const book = new RuleIndex(rules, { ipv6Prefix: 64, identitySecret: undefined })
    const headers = { get: () => value, has: () => true }
    const request = {
      method: 'GET',
      url: 'https://a.test/?x=1',
      headers,
      body: null,
      clone: () => ({ body: null }),
      cf,
    }
    await book.match(request, Date.now(), { waitUntil() {} })
  }),
)

const octet = fc.integer({ min: 0, max: 255 })
const ipv4 = fc
  .tuple(fc.constantFrom(10, 203), fc.constantFrom(0, 1, 128), octet, octet)
  .map((octets) => octets.join('.'))
const ipv6 = fc
  .tuple(
    fc.constantFrom('2001:db8', '2001:db9', 'fe80:0'),
    fc.array(fc.integer({ min: 0, max: 65_535 }), { minLength: 6, maxLength: 6 }),
  )
  .map(([head, groups]) => `${head}:${groups.map((group) => group.toString(16)).join(':')}`)
const address = fc.oneof(
  ipv4,
  ipv6,
  ipv4.map((text) => `::ffff:${text}`),
)
const network = fc.tuple(fc.oneof(ipv4, ipv6), fc.integer({ min: 1, max: 128 })).map(([text, bits]) => {
  const family = text.includes(':') ? ipaddr.IPv6 : ipaddr.IPv4
  const prefix = Math.min(bits, text.includes(':') ? 128 : 32)
  return `${family.networkAddressFromCIDR(`${text}/${prefix}`)}/${prefix}`
})

/** The same by the library. */
function parseByLibrary(text: string): string | undefined {
  const isIpv4 = ipaddr.IPv4.isValidCIDRFourPartDecimal(text)
  if (!isIpv4 && (text.includes('%') || !ipaddr.IPv6.isValidCIDR(text))) return undefined
  const [base, prefix] = ipaddr.parseCIDR(text)
  const family = isIpv4 ? ipaddr.IPv4 : ipaddr.IPv6
  const isMapped = base instanceof ipaddr.IPv6 && base.isIPv4MappedAddress()
  return prefix >= 1 && !isMapped && `${base}` === `${family.networkAddressFromCIDR(text)}`
    ? `${base}/${prefix}`
    : undefined
}

const cidr = fc.oneof(
  network,
  fc.tuple(address, fc.integer({ min: 0, max: 130 })).map((parts) => parts.join('/')),
  fc
    .tuple(network, fc.nat(40), fc.constantFrom('', ':', '::', '.', '/', '%1', ']', '0', 'f', 'g', ' '))
    .map(([text, at, other]) => text.slice(0, at) + other + text.slice(at + 1)),
)

fuzz(
  'parseNetwork() reads what the library reads',
  4_000,
  fc.asyncProperty(cidr, async (text) => {
    // Parsers differ about a dotted end, as in ::0.0.0.0; that of a mapped address must not be taken for a network.
    if (/:.*\./.test(text)) return void (text.startsWith('::ffff:') && expect(parseNetwork(text)).toBeUndefined())
    // One way only: the library takes a prefix such as 08 for 8.
    const isPadded = /\/0\d/.test(text)
    expect(parseNetwork(text)).toBe(isPadded ? undefined : parseByLibrary(text))
  }),
)

fuzz(
  'formatBits() and toWildcard() find what the library finds one by one, the smallest first',
  2_000,
  fc.asyncProperty(fc.uniqueArray(network, { maxLength: 20 }), address, async (texts, text) => {
    const networks = new Wildcards<string>()
    const known = texts.map((each) => parseNetwork(each) ?? '')
    expect(known).not.toContain('')
    for (const each of known) networks.add(toWildcard(each), each)
    const parsed = ipaddr.process(text)
    const within = known.filter((each) => {
      const [base, prefix] = ipaddr.parseCIDR(each)
      return base.kind() === parsed.kind() && parsed.match(base, prefix)
    })
    const found = networks.find(formatBits(text) ?? '')
    expect([...found].sort()).toEqual(within.sort())
    const lengths = found.map((each) => Number(each.split('/')[1]))
    expect(lengths).toEqual(lengths.toSorted((a, b) => b - a))
  }),
)

const letters = fc.string({ unit: fc.constantFrom('a', 'b', '.', '$', '\\'), maxLength: 4 })

fuzz(
  'Wildcards finds what a regular expression finds one by one, the longest first',
  2_000,
  fc.asyncProperty(fc.uniqueArray(fc.tuple(letters, letters), { maxLength: 12 }), letters, async (pairs, value) => {
    const patterns = [...new Set(pairs.map(([before, after]) => `${before}*${after}`))]
    const wildcards = new Wildcards<string>()
    for (const pattern of patterns) {
      expect(pattern).toMatch(WILDCARD)
      wildcards.add(pattern, pattern)
    }
    const literal = (text: string) => text.replace(/[.$\\]/g, '\\$&')
    const matching = patterns.filter((pattern) =>
      new RegExp(`^${pattern.split('*').map(literal).join('.*')}$`).test(value),
    )
    const found = wildcards.find(value)
    expect([...found].sort()).toEqual(matching.sort())
    expect(found.map(({ length }) => length)).toEqual(found.map(({ length }) => length).toSorted((a, b) => b - a))
  }),
)
