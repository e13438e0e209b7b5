/**
 * Models of servers that have limits: what they count, what they report, and how they refuse. Headers are those that
 * the documentation of each shows; `docs/outbound.md` names them.
 */
import type { OutboundOptions } from '../../../src/outbound.ts'
import { Bucket, Concurrency, FixedWindow, type LimitModel, SlidingWindow } from './server-limits.ts'

/** Calls of one kind, of which there are always more than the server admits. */
export interface Flow {
  readonly url: string
  readonly limits: readonly LimitModel[]
  readonly cost?: number
}

export interface Reply {
  readonly status: number
  readonly headers: Record<string, string>
  readonly body?: string
}

/** A server during one run. */
export interface Server {
  readonly flows: readonly Flow[]
  /** Headers of every response, after the call was counted or refused. */
  report?(flow: Flow, nowMs: number): Record<string, string>
  /** @param waitMs until the server would admit the call */
  refuse(flow: Flow, nowMs: number, waitMs: number): Reply
  readonly body?: (flow: Flow, nowMs: number) => string
}

export interface Provider {
  readonly name: string
  /** How a client can learn of the limits. */
  readonly evidence: 'reports' | 'refusals' | 'limiter'
  readonly horizonMs: number
  /** How its limits are named for a client that reads nothing: units in a window. */
  readonly named: { readonly limit: number; readonly windowMs: number; readonly concurrency?: number }
  readonly options?: OutboundOptions
  /** Milliseconds that the clock of the client is ahead. */
  readonly aheadMs?: number
  readonly processes?: number
  /** Processes share the store of their limiter, or lose it half-way. */
  readonly store?: 'shared' | 'lost'
  /** Every so many calls, one never gets an answer. */
  readonly hungEvery?: number
  create(startMs: number): Server
}

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const API = 'https://api.example'

/** Most report their limits, and are watched for ten minutes. */
const DEFAULTS = { evidence: 'reports', horizonMs: 10 * MINUTE } as const
type Row = Omit<Provider, keyof typeof DEFAULTS> & Partial<Provider>
const complete = (row: Row): Provider => ({ ...DEFAULTS, ...row })

const toSeconds = (ms: number) => String(Math.ceil(ms / 1_000))
const toEpoch = (ms: number) => String(Math.ceil(ms / 1_000))
const whole = (units: number) => String(Math.max(0, Math.floor(units)))

function refuseWith429(_flow: Flow, _nowMs: number, waitMs: number): Reply {
  return { status: 429, headers: { 'retry-after': toSeconds(waitMs) } }
}

/** Of several with equally little left, the one that lasts longest, as Kong does. */
function findTightest(limits: readonly LimitModel[], nowMs: number): LimitModel {
  return limits.toSorted(
    (a, b) => a.countRemaining(nowMs) - b.countRemaining(nowMs) || b.limit - a.limit,
  )[0] as LimitModel
}

/** As OpenAI writes durations: 12ms, 1m30.5s. */
function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.ceil(ms)}ms`
  const minutes = Math.floor(ms / MINUTE)
  const seconds = Math.ceil((ms - minutes * MINUTE) / 10) / 100
  return minutes > 0 ? `${minutes}m${seconds}s` : `${seconds}s`
}

function one(limit: LimitModel, path = '/things'): Flow {
  return { url: API + path, limits: [limit] }
}

/** A triple of headers about the first limit of a flow. */
function reportTriple(prefix: string, formatReset: (limit: LimitModel, nowMs: number) => string) {
  return ({ limits: [limit] }: Flow, nowMs: number): Record<string, string> => {
    if (!limit) return {}
    return {
      [`${prefix}-limit`]: String(limit.limit),
      [`${prefix}-remaining`]: whole(limit.countRemaining(nowMs)),
      [`${prefix}-reset`]: formatReset(limit, nowMs),
    }
  }
}

const resetIn = (limit: LimitModel, nowMs: number) => toSeconds(limit.findResetMs(nowMs))
const resetAt = (limit: LimitModel, nowMs: number) => toEpoch(nowMs + limit.findResetMs(nowMs))

/** Sluice itself, with two limits. */
function createSluice(format: 'draft-11' | 'x-ratelimit') {
  return (): Server => {
    const limits = [new SlidingWindow(10, 1_000), new SlidingWindow(100, MINUTE)]
    const draft = ({ limits }: Flow, nowMs: number): Record<string, string> => ({
      'ratelimit-policy': '"10-per-1s";q=10;w=1, "100-per-1m";q=100;w=60',
      ratelimit: limits
        .map((limit, index) => {
          const name = ['10-per-1s', '100-per-1m'][index]
          return `"${name}";r=${whole(limit.countRemaining(nowMs))};t=${resetIn(limit, nowMs)}`
        })
        .join(', '),
    })
    const tightest = ({ limits }: Flow, nowMs: number) => {
      return reportTriple('x-ratelimit', resetAt)({ url: '', limits: [findTightest(limits, nowMs)] }, nowMs)
    }
    return {
      flows: [{ url: `${API}/things`, limits }],
      report: format === 'draft-11' ? draft : tightest,
      refuse: refuseWith429,
    }
  }
}

const sluice: Row = {
  name: 'Sluice, draft 11',
  named: { limit: 100, windowMs: MINUTE },
  create: createSluice('draft-11'),
}

const github: Row = {
  name: 'GitHub',
  horizonMs: 65 * MINUTE,
  named: { limit: 5_000, windowMs: HOUR },
  create: () => {
    const flows = [
      one(new FixedWindow(5_000, HOUR), '/repos/octocat/hello'),
      one(new FixedWindow(30, MINUTE), '/search/issues?q=x'),
    ]
    const report = (flow: Flow, nowMs: number) => ({
      ...reportTriple('x-ratelimit', resetAt)(flow, nowMs),
      'x-ratelimit-resource': flow.url.includes('/search/') ? 'search' : 'core',
    })
    return { flows, report, refuse: () => ({ status: 403, headers: {} }) }
  },
}

const unreported: Row = {
  name: 'nothing said, limiter 300/61s',
  evidence: 'limiter',
  named: { limit: 300, windowMs: MINUTE },
  options: { limits: '300/61s' },
  create: () => ({
    flows: [one(new SlidingWindow(300, MINUTE))],
    refuse: () => ({ status: 429, headers: {} }),
  }),
}

const ROWS: readonly Row[] = [
  github,
  {
    name: 'GitHub, secondary limit',
    evidence: 'refusals',
    horizonMs: 20 * MINUTE,
    named: { limit: 80, windowMs: MINUTE },
    create: () => ({
      flows: [
        { url: `${API}/repos/octocat/hello`, limits: [new FixedWindow(80, MINUTE), new FixedWindow(5_000, HOUR)] },
      ],
      report: ({ limits }, nowMs) => ({
        ...reportTriple('x-ratelimit', resetAt)({ url: '', limits: limits.slice(1) }, nowMs),
        'x-ratelimit-resource': 'core',
      }),
      refuse: (_flow, _nowMs, waitMs) => ({ status: 403, headers: { 'retry-after': toSeconds(waitMs) } }),
    }),
  },
  {
    name: 'OpenAI',
    named: { limit: 300, windowMs: MINUTE },
    create: () => {
      const [requests, tokens] = [new Bucket(500, 500 / 60), new Bucket(30_000, 500)]
      // A call counts as one request and 100 tokens.
      const perCall: LimitModel = {
        limit: 300,
        windowMs: MINUTE,
        findFreeMs: (nowMs, cost) => tokens.findFreeMs(nowMs, cost * 100),
        take: (nowMs, cost) => tokens.take(nowMs, cost * 100),
        countRemaining: (nowMs) => tokens.countRemaining(nowMs),
        findResetMs: (nowMs) => tokens.findResetMs(nowMs),
      }
      return {
        flows: [{ url: `${API}/v1/responses`, limits: [requests, perCall] }],
        report: (_flow, nowMs) => ({
          'x-ratelimit-limit-requests': '500',
          'x-ratelimit-remaining-requests': whole(requests.countRemaining(nowMs)),
          'x-ratelimit-reset-requests': formatDuration(requests.findResetMs(nowMs)),
          'x-ratelimit-limit-tokens': '30000',
          'x-ratelimit-remaining-tokens': whole(tokens.countRemaining(nowMs)),
          'x-ratelimit-reset-tokens': formatDuration(tokens.findResetMs(nowMs)),
        }),
        refuse: (_flow, _nowMs, waitMs) => ({
          status: 429,
          headers: { 'retry-after-ms': String(Math.ceil(waitMs)), 'retry-after': toSeconds(waitMs) },
        }),
      }
    },
  },
  {
    name: 'Anthropic',
    named: { limit: 50, windowMs: MINUTE },
    create: () => ({
      flows: [one(new Bucket(50, 50 / 60), '/v1/messages')],
      report: ({ limits: [limit] }, nowMs) => ({
        'anthropic-ratelimit-requests-limit': '50',
        'anthropic-ratelimit-requests-remaining': whole(limit?.countRemaining(nowMs) ?? 0),
        'anthropic-ratelimit-requests-reset': formatDate(nowMs + (limit?.findResetMs(nowMs) ?? 0)),
      }),
      refuse: refuseWith429,
    }),
  },
  {
    name: 'Okta',
    named: { limit: 100, windowMs: MINUTE },
    create: (startMs) => ({
      flows: [one(new FixedWindow(100, MINUTE, startMs - 20_000))],
      report: reportTriple('x-rate-limit', resetAt),
      refuse: () => ({ status: 429, headers: {} }),
    }),
  },
  {
    name: 'X',
    horizonMs: 46 * MINUTE,
    named: { limit: 300, windowMs: 15 * MINUTE },
    create: () => ({
      flows: [one(new FixedWindow(300, 15 * MINUTE))],
      report: reportTriple('x-rate-limit', resetAt),
      refuse: () => ({ status: 429, headers: {} }),
    }),
  },
  {
    name: 'Shopify REST',
    named: { limit: 2, windowMs: 1_000 },
    create: () => ({
      flows: [one(new Bucket(40, 2))],
      report: ({ limits: [limit] }, nowMs) => ({
        'x-shopify-shop-api-call-limit': `${Math.ceil(40 - (limit?.countRemaining(nowMs) ?? 0))}/40`,
      }),
      refuse: () => ({ status: 429, headers: { 'retry-after': '2.0' } }),
    }),
  },
  {
    name: 'Shopify GraphQL',
    named: { limit: 5, windowMs: 1_000 },
    options: {
      cost: 10,
      retry: { isRefusal: async (response) => (await response.clone().text()).includes('"THROTTLED"') },
      readLimits: async (response) => {
        const { extensions } = (await response.clone().json()) as ShopifyBody
        const { maximumAvailable, currentlyAvailable, restoreRate } = extensions.cost.throttleStatus
        return [{ limit: maximumAvailable, remaining: currentlyAvailable, refillPerS: restoreRate }]
      },
    },
    create: () => {
      const format = ({ limits: [limit] }: Flow, nowMs: number, errors: object) => {
        const currentlyAvailable = Math.floor(limit?.countRemaining(nowMs) ?? 0)
        const throttleStatus = { maximumAvailable: 1_000, currentlyAvailable, restoreRate: 50 }
        return JSON.stringify({ ...errors, extensions: { cost: { requestedQueryCost: 10, throttleStatus } } })
      }
      const errors = { errors: [{ message: 'Throttled', extensions: { code: 'THROTTLED' } }] }
      return {
        flows: [{ url: `${API}/graphql.json`, limits: [new Bucket(1_000, 50)], cost: 10 }],
        refuse: (flow, nowMs) => ({ status: 200, headers: {}, body: format(flow, nowMs, errors) }),
        body: (flow, nowMs) => format(flow, nowMs, {}),
      }
    },
  },
  {
    name: 'Discord',
    named: { limit: 5, windowMs: 5_000 },
    create: () => ({
      flows: ['/channels/1/messages', '/guilds/2/members'].map((path) => one(new FixedWindow(5, 5_000), path)),
      report: (flow, nowMs) => ({
        ...reportTriple('x-ratelimit', (limit) => ((nowMs + limit.findResetMs(nowMs)) / 1_000).toFixed(3))(flow, nowMs),
        'x-ratelimit-reset-after': ((flow.limits[0]?.findResetMs(nowMs) ?? 0) / 1_000).toFixed(3),
        'x-ratelimit-bucket': flow.url.includes('channels') ? 'abcd' : 'ef01',
      }),
      refuse: (_flow, _nowMs, waitMs) => ({ status: 429, headers: { 'retry-after': (waitMs / 1_000).toFixed(3) } }),
    }),
  },
  {
    name: 'Slack',
    evidence: 'refusals',
    horizonMs: 30 * MINUTE,
    named: { limit: 20, windowMs: MINUTE },
    options: { resource: ({ url }) => url.pathname },
    create: () => ({
      flows: [
        one(new FixedWindow(20, MINUTE), '/api/conversations.list'),
        one(new FixedWindow(50, MINUTE), '/api/conversations.info'),
      ],
      refuse: refuseWith429,
    }),
  },
  {
    name: 'Stripe',
    evidence: 'refusals',
    named: { limit: 25, windowMs: 1_000 },
    create: () => ({
      flows: [one(new Bucket(25, 25), '/v1/charges')],
      refuse: () => ({ status: 429, headers: { 'stripe-rate-limited-reason': 'global-rate' } }),
    }),
  },
  {
    name: 'Stripe, concurrency 20',
    evidence: 'refusals',
    named: { limit: 25, windowMs: 1_000, concurrency: 20 },
    options: { concurrency: 20 },
    create: () => ({
      flows: [{ url: `${API}/v1/charges`, limits: [new Bucket(25, 25), new Concurrency(20)] }],
      refuse: () => ({ status: 429, headers: { 'stripe-rate-limited-reason': 'global-concurrency' } }),
    }),
  },
  {
    name: 'Kong',
    named: { limit: 100, windowMs: MINUTE },
    create: (startMs) => ({
      flows: [
        {
          url: `${API}/things`,
          limits: [new FixedWindow(10, 1_000, startMs - 300), new FixedWindow(100, MINUTE, startMs - 20_300)],
        },
      ],
      report: ({ limits }, nowMs) => {
        const [second, minute] = limits.map((limit) => whole(limit.countRemaining(nowMs)))
        return {
          ...reportTriple('ratelimit', resetIn)({ url: '', limits: [findTightest(limits, nowMs)] }, nowMs),
          'x-ratelimit-limit-second': '10',
          'x-ratelimit-limit-minute': '100',
          'x-ratelimit-remaining-second': second ?? '',
          'x-ratelimit-remaining-minute': minute ?? '',
        }
      },
      refuse: refuseWith429,
    }),
  },
  {
    name: 'Envoy',
    horizonMs: 5 * MINUTE,
    named: { limit: 10, windowMs: 1_000 },
    create: (startMs) => ({
      flows: [one(new FixedWindow(10, 1_000, startMs - 300))],
      report: (flow, nowMs) => ({
        ...reportTriple('x-ratelimit', resetIn)(flow, nowMs),
        'x-ratelimit-limit': '10, 10;w=1;name="default"',
      }),
      refuse: () => ({ status: 429, headers: {} }),
    }),
  },
  {
    name: 'Traefik',
    evidence: 'refusals',
    named: { limit: 10, windowMs: 1_000 },
    create: () => ({
      flows: [one(new Bucket(20, 10))],
      refuse: (_flow, _nowMs, waitMs) => ({
        status: 429,
        headers: { 'retry-after': toSeconds(waitMs), 'x-retry-in': `${waitMs.toFixed(3)}ms` },
      }),
    }),
  },
  {
    name: 'Spring Cloud Gateway',
    horizonMs: 5 * MINUTE,
    named: { limit: 10, windowMs: 1_000 },
    create: () => ({
      flows: [one(new Bucket(20, 10))],
      report: ({ limits: [limit] }, nowMs) => ({
        'x-ratelimit-remaining': whole(limit?.countRemaining(nowMs) ?? 0),
        'x-ratelimit-burst-capacity': '20',
        'x-ratelimit-replenish-rate': '10',
        'x-ratelimit-requested-tokens': '1',
      }),
      refuse: () => ({ status: 429, headers: {} }),
    }),
  },
  {
    name: 'Laravel',
    evidence: 'refusals',
    named: { limit: 60, windowMs: MINUTE },
    create: () => {
      const report = ({ limits: [limit] }: Flow, nowMs: number) => ({
        'x-ratelimit-limit': '60',
        'x-ratelimit-remaining': whole(limit?.countRemaining(nowMs) ?? 0),
      })
      return {
        flows: [one(new FixedWindow(60, MINUTE))],
        report,
        refuse: (_flow, nowMs, waitMs) => ({
          status: 429,
          headers: { 'retry-after': toSeconds(waitMs), 'x-ratelimit-reset': toEpoch(nowMs + waitMs) },
        }),
      }
    },
  },
  {
    name: 'express-rate-limit',
    named: { limit: 100, windowMs: MINUTE },
    create: () => ({
      flows: [one(new FixedWindow(100, MINUTE))],
      report: ({ limits: [limit] }, nowMs) => ({
        'ratelimit-policy': '100;w=60',
        ratelimit: limit
          ? `limit=100, remaining=${whole(limit.countRemaining(nowMs))}, reset=${resetIn(limit, nowMs)}`
          : '',
      }),
      refuse: refuseWith429,
    }),
  },
  {
    name: 'GitLab',
    named: { limit: 300, windowMs: MINUTE },
    create: (startMs) => ({
      flows: [one(new FixedWindow(300, MINUTE, startMs - 20_000))],
      report: (flow, nowMs) => ({
        ...reportTriple('ratelimit', resetAt)(flow, nowMs),
        'ratelimit-name': 'throttle_authenticated_api',
        'ratelimit-observed': String(300 - (flow.limits[0]?.countRemaining(nowMs) ?? 0)),
      }),
      refuse: refuseWith429,
    }),
  },
  {
    name: 'Reddit',
    horizonMs: 31 * MINUTE,
    named: { limit: 600, windowMs: 10 * MINUTE },
    create: (startMs) => ({
      flows: [one(new FixedWindow(600, 10 * MINUTE, startMs - 20_000))],
      report: ({ limits: [limit] }, nowMs) => ({
        'x-ratelimit-used': String(600 - (limit?.countRemaining(nowMs) ?? 0)),
        'x-ratelimit-remaining': (limit?.countRemaining(nowMs) ?? 0).toFixed(1),
        'x-ratelimit-reset': limit ? resetIn(limit, nowMs) : '',
      }),
      refuse: () => ({ status: 429, headers: {} }),
    }),
  },
  {
    name: 'HubSpot',
    named: { limit: 100, windowMs: 10_000 },
    create: () => {
      const daily = new FixedWindow(250_000, 24 * HOUR)
      return {
        flows: [{ url: `${API}/crm/v3/objects`, limits: [new FixedWindow(100, 10_000), daily] }],
        report: ({ limits: [limit] }, nowMs) => ({
          'x-hubspot-ratelimit-max': '100',
          'x-hubspot-ratelimit-remaining': whole(limit?.countRemaining(nowMs) ?? 0),
          'x-hubspot-ratelimit-interval-milliseconds': '10000',
          'x-hubspot-ratelimit-daily': '250000',
          'x-hubspot-ratelimit-daily-remaining': whole(daily.countRemaining(nowMs)),
        }),
        refuse: () => ({ status: 429, headers: {} }),
      }
    },
  },
  { ...sluice, name: 'Sluice, x-ratelimit', create: createSluice('x-ratelimit') },
  sluice,
  unreported,
]
export const PROVIDERS = ROWS.map(complete)

/** The same servers when something goes wrong, or several processes call them. */
const HARD_ROWS: readonly Row[] = [
  { ...sluice, name: 'Sluice, two processes', processes: 2 },
  { ...sluice, name: 'Sluice, eight processes', processes: 8 },
  { ...unreported, name: 'limiter 300/61s, two processes share a store', processes: 2, store: 'shared' },
  { ...unreported, name: 'limiter 300/61s, eight processes share a store', processes: 8, store: 'shared' },
  { ...unreported, name: 'limiter 300/61s, two processes lose their store', processes: 2, store: 'lost' },
  { ...github, name: 'GitHub, the clock an hour ahead', aheadMs: HOUR },
  { ...github, name: 'GitHub, the clock an hour behind', aheadMs: -HOUR },
  { ...sluice, name: 'Sluice, one call in 50 hangs', hungEvery: 50 },
  { ...unreported, name: 'limiter 300/61s, one call in 50 hangs', hungEvery: 50 },
]
export const CIRCUMSTANCES = HARD_ROWS.map(complete)

interface ShopifyBody {
  readonly extensions: {
    readonly cost: {
      readonly throttleStatus: {
        readonly maximumAvailable: number
        readonly currentlyAvailable: number
        readonly restoreRate: number
      }
    }
  }
}

/** RFC 3339, in whole seconds. */
function formatDate(ms: number): string {
  return new Date(Math.ceil(ms / 1_000) * 1_000).toISOString().replace('.000Z', 'Z')
}
