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
import { type Spread, summarize } from '../statistics.ts'

/** Callers that an isolate meets again and again, and how often each comes. */
const SEEN = { callers: 500, times: 20 }
const REQUESTS = SEEN.callers * SEEN.times
const CONTEXT = { deadlines: Deadlines.createForOne(), waitUntil() {} }
const SECRET = 'a secret of 16 characters'
const NOW_MS = 1_800_000_000_000
/** In the first rounds, much is compiled. */
const WARM_UPS = 2
const ROUNDS = 7
const ENTRIES = 10_000
const CALLERS = ['never seen', 'seen before'] as const
type Callers = (typeof CALLERS)[number]

export interface RulesFigures {
  readonly callers: Callers
  /** Processor time that rules add to a request until it is known what to ask of the store. */
  readonly addedUs: Spread
}

export interface RulesBench {
  readonly entries: number
  /** Milliseconds of processor time to read them. */
  readonly readMs: Spread
  readonly requests: readonly RulesFigures[]
}

/** Measures in rounds, each with other requests than those before. */
export async function measureRules(): Promise<RulesBench> {
  const text = JSON.stringify(createRules(ENTRIES))
  const config = loadConfig({ UPSTREAM_URL: 'https://api.test', IDENTITY_SECRET: SECRET })
  const path = createPathReader()('/')
  const random = seededRandom(1)
  const reading: number[] = []
  const addedUs = { 'never seen': [] as number[], 'seen before': [] as number[] }
  for (let round = 0; round < ROUNDS + WARM_UPS; round++) {
    const digestsOfTokens = new TextLru<string>()
    const startedAt = process.cpuUsage()
    const book = new RuleIndex(parseRules(text), { ...config, digestsOfTokens })
    if (round >= WARM_UPS) reading.push(readOwnUs(startedAt) / 1_000)
    const gateways = [
      { sign: -1, ruleIndex: undefined, limiter: createLimiter(new TextLru<string>()) },
      { sign: 1, ruleIndex: book, limiter: createLimiter(digestsOfTokens) },
    ] as const
    const difference = { 'never seen': 0, 'seen before': 0 }
    // Neither is always the first.
    for (const { sign, ruleIndex, limiter } of round % 2 === 0 ? gateways : gateways.toReversed()) {
      const first = Math.floor(random() * 1_000_000_000)
      const requests = Array.from({ length: REQUESTS }, (_, index) => createRequest(first + index))
      const seen = requests.slice(0, SEEN.callers)
      const again = Array.from({ length: SEEN.times }, () => seen).flat()
      for (const callers of CALLERS) {
        const beganAt = process.cpuUsage()
        await findAllCharges(limiter, ruleIndex, callers === 'seen before' ? again : requests)
        difference[callers] += (sign * readOwnUs(beganAt)) / REQUESTS
      }
    }
    if (round >= WARM_UPS) for (const callers of CALLERS) addedUs[callers].push(difference[callers])
  }
  return {
    entries: ENTRIES,
    readMs: summarize(reading),
    requests: CALLERS.map((callers) => ({ callers, addedUs: summarize(addedUs[callers]) })),
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
