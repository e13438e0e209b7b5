/** Measures the cost that rules add to a request. */
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
import { readOwnUs } from '../processor-time.ts'

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
  /** Processor time that rules add to a request until it is known what to ask of the store. */
  readonly addedUs: number
}

export interface RulesBench {
  readonly entries: number
  /** Milliseconds to read them. */
  readonly readMs: number
  readonly requests: readonly RulesFigures[]
}

/** @param rounds each with other requests than those before */
export async function measureRules({ entries, rounds }: { entries: number; rounds: number }): Promise<RulesBench> {
  const text = JSON.stringify(createRules(entries))
  const config = loadConfig({ UPSTREAM_URL: 'https://api.test', IDENTITY_SECRET: SECRET })
  const path = createPathReader()('/')
  const random = seededRandom(1)
  const reading: number[] = []
  /** Processor time of a request in the fastest round. */
  const minUs = { 'never seen': createMinima(), 'seen before': createMinima() }
  for (let round = 0; round < rounds + WARM_UPS; round++) {
    const digestsOfTokens = new TextLru<string>()
    const startedAt = process.cpuUsage()
    const book = new RuleIndex(parseRules(text), { ...config, digestsOfTokens })
    reading.push(readOwnUs(startedAt))
    const gateways = [
      { kind: 'plain', ruleIndex: undefined, limiter: createLimiter(new TextLru<string>()) },
      { kind: 'withRules', ruleIndex: book, limiter: createLimiter(digestsOfTokens) },
    ] as const
    // Neither is always the first.
    for (const { kind, ruleIndex, limiter } of round % 2 === 0 ? gateways : gateways.toReversed()) {
      const first = Math.floor(random() * 1_000_000_000)
      const requests = Array.from({ length: REQUESTS }, (_, index) => createRequest(first + index))
      const seen = requests.slice(0, SEEN.callers)
      const again = Array.from({ length: SEEN.times }, () => seen).flat()
      for (const callers of CALLERS) {
        const beganAt = process.cpuUsage()
        await findAllCharges(limiter, ruleIndex, callers === 'seen before' ? again : requests)
        const us = readOwnUs(beganAt) / REQUESTS
        // In the first rounds, much is compiled.
        if (round >= WARM_UPS) minUs[callers][kind] = Math.min(minUs[callers][kind], us)
      }
    }
  }
  return {
    entries,
    readMs: Math.min(...reading) / 1_000,
    requests: CALLERS.map((callers) => ({ callers, addedUs: minUs[callers].withRules - minUs[callers].plain })),
  }

  async function findAllCharges(
    limiter: RequestLimiter,
    ruleIndex: RuleIndex | undefined,
    requests: readonly ReceivedRequest[],
  ) {
    for (const request of requests) {
      const found = ruleIndex?.match(request, NOW_MS, CONTEXT)
      const orders = found instanceof Promise ? await found : found
      if (orders && 'outcome' in orders) throw new Error('no caller is to be blocked')
      await limiter.findCharges({ request, path, context: CONTEXT }, { rules: orders })
    }
  }

  function createLimiter(digestsOfTokens: TextLru<string>): RequestLimiter {
    const engine = { decide: refuseCall, record: refuseCall }
    return new RequestLimiter({
      ...config,
      engine,
      health: undefined,
      createSettlement: undefined,
      log() {},
      digestsOfTokens,
    })
  }
}

function createMinima() {
  return { plain: Number.POSITIVE_INFINITY, withRules: Number.POSITIVE_INFINITY }
}

function refuseCall(): never {
  throw new Error('nothing is charged')
}

/** A tenth each: callers by token, address and tenant; networks of many lengths; places; overrides of each kind. */
function createRules(entries: number): Rules {
  const digest = createDigest(SECRET)
  const part = Array.from({ length: Math.round(entries / 10) }, (_, index) => index)
  const toCaller = (by: string, value: string) => ({ by, digest: digest([by, value]) })
  return readRules({
    blocks: [
      ...part.map((n) => toCaller('token', `token-${n}`)),
      ...part.map((n) => toCaller('ip', `198.18.${n >> 8}.${n & 255}`)),
      ...part.map((n) => ({ cidr: toNetwork(n), reason: 'scans' })),
      ...part.map((n) => ({ cidr: `2001:db8:${n.toString(16)}::/48` })),
      ...part.map((n) => ({ asn: 64_000 + n, status: 451 })),
    ],
    allows: part.map((n) => toCaller('token', `partner-${n}`)),
    overrides: [
      ...part.flatMap((n) => [
        { ...toCaller('token', `customer-${n}`), limits: { default: `${100 + n}/1m` } },
        { ...toCaller('header:x-tenant', `tenant-${n}`), multiplier: 2 },
      ]),
      ...part.map((n) => ({ by: 'header:x-tenant', value: `group-${n}-*`, multiplier: 3 })),
      ...part.map((n) => ({ digest: digest(['token', `logged-${n}`]), unlimited: true })),
    ],
  })
}

/** One of 12 lengths of a prefix. */
function toNetwork(n: number): string {
  const address = ((100 << 24) + n * 65_536 * 2) >>> 0
  return `${address >>> 24}.${(address >> 16) & 255}.0.0/${16 + (n % 12)}`
}

function createRequest(n: number): ReceivedRequest {
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
