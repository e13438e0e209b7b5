/** What rules add to a request, beside what the limiter does with it anyway. */

import { Deadlines } from '../../src/core/runtime/call-context.ts'
import { createDigest } from '../../src/core/runtime/digest.ts'
import { TextLru } from '../../src/core/runtime/lru.ts'
import { parseRules, type Rules, readRules } from '../../src/gateway/rules/document.ts'
import { RuleIndex } from '../../src/gateway/rules/rule-index.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'
import type { ReceivedRequest } from '../../src/http/request/received-request.ts'
import { RequestLimiter } from '../../src/http/request/request-limiter.ts'
import { createPathReader } from '../../src/http/request/target.ts'
import { seededRandom } from '../../tools/seeded-random.ts'
import { median } from '../statistics.ts'

/** Callers that an isolate meets again and again, and how often each comes. */
const SEEN = { callers: 500, times: 20 }
const REQUESTS = SEEN.callers * SEEN.times
const CONTEXT = { deadlines: Deadlines.createForOne(), waitUntil() {} }
const SECRET = 'a secret of 16 characters'
const NOW_MS = 1_800_000_000_000
const WARM_UPS = 2
const CALLERS = ['never seen', 'seen before'] as const
type Callers = (typeof CALLERS)[number]

export interface RulesFigures {
  readonly callers: Callers
  /** Processor time of a request until it is known what to ask of the store, without rules: of the fastest round. */
  readonly limiterUs: number
  /** What rules add to it: the fastest round with them less the fastest without. */
  readonly addedUs: number
  /** The same of each round, the median: what else the machine does counts in it. */
  readonly medianUs: number
}

export interface RulesBench {
  readonly entries: number
  readonly kib: number
  /** To read them, milliseconds. */
  readonly readMs: number
  readonly requests: readonly RulesFigures[]
}

/** @param rounds each with other requests than those before */
export async function measureRules({ entries, rounds }: { entries: number; rounds: number }): Promise<RulesBench> {
  const text = JSON.stringify(manyRules(entries))
  const config = loadConfig({ UPSTREAM_URL: 'https://api.test', IDENTITY_SECRET: SECRET })
  const path = createPathReader()('/')
  const random = seededRandom(1)
  const reading: number[] = []
  const rows: Record<Callers, Row[]> = { 'never seen': [], 'seen before': [] }
  for (let round = 0; round < rounds + WARM_UPS; round++) {
    const digestsOfTokens = new TextLru<string>()
    let book: RuleIndex | undefined
    reading.push(
      await microseconds(async () => {
        book = new RuleIndex(parseRules(text), { ...config, digestsOfTokens })
      }),
    )
    // Neither is always the first.
    const gateways = [undefined, book].map((ruleIndex) => ({
      ruleIndex,
      limiter: limiterOf(ruleIndex ? digestsOfTokens : new TextLru<string>()),
      us: new Map<Callers, number>(),
    }))
    for (const { ruleIndex, limiter, us } of round % 2 === 0 ? gateways : gateways.toReversed()) {
      const first = Math.floor(random() * 1_000_000_000)
      const requests = Array.from({ length: REQUESTS }, (_, index) => requestOf(first + index))
      const seen = requests.slice(0, SEEN.callers)
      const again = Array.from({ length: SEEN.times }, () => seen).flat()
      for (const [callers, all] of [
        ['never seen', requests],
        ['seen before', again],
      ] as const) {
        us.set(callers, (await microseconds(() => askAll(limiter, ruleIndex, all))) / REQUESTS)
      }
    }
    // Of the first rounds, much is for the compiler.
    if (round < WARM_UPS) continue
    for (const callers of CALLERS) {
      const [limiterUs, withRulesUs] = gateways.map(({ us }) => us.get(callers) as number) as [number, number]
      rows[callers].push({ limiterUs, withRulesUs })
    }
  }
  return {
    entries,
    kib: text.length / 1024,
    readMs: Math.min(...reading) / 1_000,
    requests: CALLERS.map((callers) => {
      const limiterUs = Math.min(...rows[callers].map((row) => row.limiterUs))
      const withRulesUs = Math.min(...rows[callers].map((row) => row.withRulesUs))
      const medianUs = median(rows[callers].map((row) => row.withRulesUs - row.limiterUs))
      return { callers, limiterUs, addedUs: withRulesUs - limiterUs, medianUs }
    }),
  }

  async function askAll(
    limiter: RequestLimiter,
    ruleIndex: RuleIndex | undefined,
    requests: readonly ReceivedRequest[],
  ) {
    for (const request of requests) {
      const found = ruleIndex?.match(request, NOW_MS, CONTEXT)
      const orders = found instanceof Promise ? await found : found
      if (orders && 'outcome' in orders) throw new Error('nobody is to be blocked')
      await limiter.findCharges({ request, path, context: CONTEXT }, { rules: orders })
    }
  }

  function limiterOf(digestsOfTokens: TextLru<string>): RequestLimiter {
    const engine = { decide: notAsked, charge: notAsked }
    return new RequestLimiter({ ...config, engine, health: undefined, log() {}, digestsOfTokens })
  }
}

interface Row {
  readonly limiterUs: number
  readonly withRulesUs: number
}

function notAsked(): never {
  throw new Error('nothing is charged')
}

/** A tenth each: callers by token, address and tenant; networks of many lengths; places; overrides of each kind. */
function manyRules(entries: number): Rules {
  const digest = createDigest(SECRET)
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
        { ...caller('header:x-tenant', `tenant-${n}`), multiplier: 2 },
      ]),
      ...part.map((n) => ({ by: 'header:x-tenant', value: `group-${n}-*`, multiplier: 3 })),
      ...part.map((n) => ({ digest: digest(['token', `logged-${n}`]), unlimited: true })),
    ],
  })
}

/** One of 12 lengths of a prefix. */
function network(n: number): string {
  const address = ((100 << 24) + n * 65_536 * 2) >>> 0
  return `${address >>> 24}.${(address >> 16) & 255}.0.0/${16 + (n % 12)}`
}

function requestOf(n: number): ReceivedRequest {
  const headers = new Headers({
    Authorization: `Bearer some-token-${n}`,
    'CF-Connecting-IP': n % 3 === 0 ? `2001:db9:${(n & 65_535).toString(16)}::1` : `192.0.${(n >> 8) & 255}.${n & 255}`,
    'X-Tenant': `acme-${n}`,
  })
  return {
    method: 'GET',
    url: 'https://api.test/',
    headers,
    body: null,
    clone: () => ({ body: null }),
    cf: { asn: -n },
  }
}

/** Of processor time. */
async function microseconds(work: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage()
  await work()
  const { user, system } = process.cpuUsage(before)
  return user + system
}
