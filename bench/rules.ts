/**
 * What it costs to match a request against 10,000 blocks, allows and overrides, and to read them.
 *
 *     npm run bench:rules
 *
 * Each figure is the processor time of the fastest of several rounds, in which other requests were matched than before.
 */
import { parseArgs } from 'node:util'
import { createDigest } from '../src/request/identity/digest.ts'
import type { ReceivedRequest } from '../src/request/received-request.ts'
import { parseRules, type Rules, readRules, writeRules } from '../src/rules/document.ts'
import { Rulebook } from '../src/rules/rulebook.ts'
import { seededRandom } from '../tools/seeded-random.ts'

const ROUNDS = 7
const REQUESTS = 20_000
const CONTEXT = { waitUntil() {} }
const SECRET = 'a secret of 16 characters'

const { values } = parseArgs({ options: { entries: { type: 'string', default: '10000' } } })
const entries = Number(values.entries)
const digest = createDigest(SECRET)
const random = seededRandom(1)
const below = (bound: number) => Math.floor(random() * bound)

/** A tenth each: callers by token, address and tenant; networks of many lengths; places; overrides of each kind. */
function manyRules(): Rules {
  const part = Array.from({ length: Math.round(entries / 10) }, (_, index) => index)
  const caller = (by: string, value: string) => ({ by, digest: digest([by, value]) })
  return readRules({
    blocks: [
      ...part.map((n) => caller('token', `token-${n}`)),
      ...part.map((n) => caller('ip', `198.18.${n >> 8}.${n & 255}`)),
      ...part.map((n) => ({ cidr: network(n), reason: 'scans' })),
      ...part.map((n) => ({ cidr: `2001:db8:${n.toString(16)}::/48` })),
      ...part.map((n) => ({ asn: 64_000 + n, status: 451 })),
    ],
    allows: part.map((n) => caller('token', `partner-${n}`)),
    overrides: [
      ...part.flatMap((n) => [
        { ...caller('token', `customer-${n}`), limits: { default: `${100 + n}/1m` } },
        { ...caller('header:x-tenant', `tenant-${n}`), times: 2 },
      ]),
      ...part.map((n) => ({ by: 'header:x-tenant', value: `group-${n}-*`, times: 3 })),
      ...part.map((n) => ({ digest: digest(['token', `logged-${n}`]), unlimited: true })),
    ],
  })
}

/** One of 12 lengths of a prefix. */
function network(n: number): string {
  const length = 16 + (n % 12)
  const address = ((100 << 24) + n * 65_536 * 2) >>> 0
  const masked = length >= 16 ? address : 0
  return `${masked >>> 24}.${(masked >> 16) & 255}.0.0/${length}`
}

function requestOf(n: number): ReceivedRequest {
  const headers = new Headers({
    Authorization: `Bearer some-token-${n}`,
    'CF-Connecting-IP': n % 3 === 0 ? `2001:db9:${(n & 65_535).toString(16)}::1` : `192.0.${(n >> 8) & 255}.${n & 255}`,
    'X-Tenant': `acme-${n}`,
  })
  return { method: 'GET', url: 'https://api.test/', headers, body: null, clone: () => ({ body: null }), cf: { asn: n } }
}

const rules = manyRules()
const text = writeRules(rules)
const count = rules.blocks.length + rules.allows.length + rules.overrides.length
console.log(`${count} entries, ${(text.length / 1024).toFixed(0)} KiB`)

const options = { ipv6Prefix: 64, identitySecret: SECRET }
let book = new Rulebook(rules, options)
const reading: number[] = []
const fresh: number[] = []
const known: number[] = []
const none: number[] = []
for (let round = 0; round < ROUNDS; round++) {
  reading.push(
    microseconds(() => {
      book = new Rulebook(parseRules(text), options)
    }),
  )
  const first = below(1_000_000) * 2
  const requests = Array.from({ length: REQUESTS }, (_, index) => requestOf(first + index))
  fresh.push(microseconds(() => matchAll(book, requests)) / REQUESTS)
  // As many callers as an isolate meets again and again.
  const some = requests.slice(0, 500)
  matchAll(book, some)
  known.push(microseconds(() => repeat(40, () => matchAll(book, some))) / (40 * some.length))
  const empty = new Rulebook(readRules({ blocks: [{ asn: 1 }] }), options)
  none.push(microseconds(() => repeat(40, () => matchAll(empty, some))) / (40 * some.length))
}
console.log(`to read them: ${(Math.min(...reading) / 1000).toFixed(0)} ms`)
console.log(`a request of a caller never seen: ${Math.min(...fresh).toFixed(2)} µs`)
console.log(`a request of one seen before: ${Math.min(...known).toFixed(2)} µs`)
console.log(`with one block, by network number: ${Math.min(...none).toFixed(2)} µs`)

function matchAll(rulebook: Rulebook, requests: readonly ReceivedRequest[]): void {
  for (const request of requests) rulebook.ordersFor(request, 1_800_000_000_000, CONTEXT)
}

function repeat(times: number, work: () => void): void {
  for (let n = 0; n < times; n++) work()
}

/** Of processor time. */
function microseconds(work: () => void): number {
  const before = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(before)
  return user + system
}
