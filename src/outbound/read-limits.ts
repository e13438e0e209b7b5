/**
 * Reads what servers report of their limits, and how they refuse. Every format is a row of a table; a header that cannot
 * be read counts as missing.
 */
import { type Parameters, parseDictionary, parseList, Token } from 'structured-headers'
import { MAX_TRIP_MS } from './window.ts'

/** A limit as a server reports it. */
export interface ServerLimit {
  /** Tells limits of the same number apart. Default: a limit is known by its number. */
  readonly name?: string | undefined
  /** Units that are counted instead of calls, such as tokens: the first report shows how many a call takes. */
  readonly unit?: string | undefined
  /** Units in a window, or a bucket's capacity: an integer from 1. */
  readonly limit?: number | undefined
  readonly windowMs?: number | undefined
  /** Units left, an integer from 0. */
  readonly remaining?: number | undefined
  /** Milliseconds from now until more than `remaining` can be used. */
  readonly resetMs?: number | undefined
  /** Units that come back each second, if it is a bucket rather than a window. */
  readonly refillPerS?: number | undefined
}

/** The limits that a response reports. */
export interface Report {
  readonly limits: readonly ServerLimit[]
  /** The server's own name for what the limits are of. */
  readonly resource: string | undefined
  /** How long the server asks to wait; undefined if it does not, or if that is over. */
  readonly retryAfterMs: number | undefined
}

/** A response, its times, and what is read of its headers. */
interface Source {
  get(header: string): string | undefined
  /** Milliseconds since the call was counted: durations are from then on, not from a late answer on. */
  readonly ageMs: number
  /** The server's time when it answered. */
  readonly serverMs: number
}

const NOTHING: Report = { limits: [], resource: undefined, retryAfterMs: undefined }
/** A server that reports thousands costs nothing. */
const MAX_LIMITS = 16
/** Longer headers are not read. */
const MAX_CHARACTERS = 4_000
/** No window is this long (31 years), and no timestamp is this early (2001). */
const MIN_EPOCH_S = 1e9
const MIN_EPOCH_MS = 1e12

const SECOND_MS = 1_000
const DAY_MS = 86_400_000
const WINDOWS_MS = { Second: SECOND_MS, Minute: 60_000, Hour: 3_600_000, Day: DAY_MS }

/** GitHub, Discord and GitLab name what their limits are of. */
const RESOURCE_HEADERS = ['X-RateLimit-Resource', 'X-RateLimit-Bucket', 'RateLimit-Name']

type Limits = readonly (ServerLimit | undefined)[]

/** A format, by the names of its headers, each of them between spaces. */
const FORMATS: readonly (readonly [names: RegExp, read: (source: Source) => Limits])[] = [
  // draft-ietf-httpapi-ratelimit-headers, versions 8 and later, then 6 and 7, with the names that came before and after.
  [/ ratelimit(-policy)? /, readDraft],
  [/ ratelimit-(limit|reset)/, (source) => readTriple(source, 'RateLimit')],
  [/ x-ratelimit-(limit|reset)/, (source) => readTriple(source, 'X-RateLimit')],
  // Okta, X
  [/ x-rate-limit-/, (source) => readTriple(source, 'X-Rate-Limit')],
  // Linear
  [/ x-ratelimit-requests-/, (source) => readTriple(source, 'X-RateLimit-Requests')],
  [/ x-ratelimit-usage /, readStrava],
  // Etsy
  [
    / x-limit-per-/,
    ({ get }) => [
      toLimit({ limit: get('X-Limit-Per-Second'), remaining: get('X-Remaining-This-Second'), windowMs: SECOND_MS }),
      toLimit({ limit: get('X-Limit-Per-Day'), remaining: get('X-Remaining-Today'), windowMs: DAY_MS }),
    ],
  ],
  // Kong
  [
    / x-ratelimit-(limit|remaining)-(second|minute|hour|day) /,
    ({ get }) =>
      Object.entries(WINDOWS_MS).map(([window, windowMs]) =>
        toLimit({
          limit: get(`X-RateLimit-Limit-${window}`),
          remaining: get(`X-RateLimit-Remaining-${window}`),
          windowMs,
        }),
      ),
  ],
  // OpenAI
  [
    / x-ratelimit-\w+-(requests|tokens) /,
    (source) => readUnits(source, ['requests', 'tokens'], (unit, value) => `x-ratelimit-${value}-${unit}`),
  ],
  [
    / anthropic-ratelimit-/,
    (source) =>
      readUnits(
        source,
        ['requests', 'tokens', 'input-tokens', 'output-tokens'],
        (unit, value) => `anthropic-ratelimit-${unit}-${value}`,
      ),
  ],
  // Shopify's REST API: used units of a bucket that leaks all of it in 20 seconds.
  [
    / x-shopify-shop-api-call-limit /,
    ({ get }) => {
      const [, used, limit] = /^(\d{1,9})\/(\d{1,9})$/.exec(get('X-Shopify-Shop-Api-Call-Limit') ?? '') ?? []
      const remaining = String(Math.max(0, Number(limit) - Number(used)))
      return [toLimit({ limit, remaining, refillPerS: Number(limit) / 20 })]
    },
  ],
  // Spring Cloud Gateway
  [
    / x-ratelimit-burst-capacity /,
    ({ get }) => {
      const refillPerS = readNumber(get('X-RateLimit-Replenish-Rate')) || undefined
      return [
        toLimit({ limit: get('X-RateLimit-Burst-Capacity'), remaining: get('X-RateLimit-Remaining'), refillPerS }),
      ]
    },
  ],
  [
    / x-hubspot-ratelimit-/,
    (source) => {
      const get = (field: string) => source.get(`X-HubSpot-RateLimit-${field}`)
      const windowMs = toCount(readNumber(get('Interval-Milliseconds'))) || undefined
      return [
        toLimit({ limit: get('Max'), remaining: get('Remaining'), windowMs }),
        toLimit({ limit: get('Daily'), remaining: get('Daily-Remaining'), windowMs: DAY_MS }),
      ]
    },
  ],
]

/**
 * @param sentAtMs when the call was sent; when its answer came if that is no success, which is counted late or never
 * @param nowMs when its answer came, by the same clock
 */
export function readReport(headers: Headers, sentAtMs: number, nowMs: number): Report {
  let names = ' '
  for (const name of headers.keys()) if (/limit|retry/.test(name)) names += `${name} `
  if (names === ' ') return NOTHING
  const get = (header: string) => {
    const text = headers.get(header)?.trim()
    if (!text || text.length > MAX_CHARACTERS) return undefined
    // A proxy that adds its own may send a field twice.
    const half = text.slice(0, text.length / 2 - 1)
    return text === `${half}, ${half}` ? half : text
  }
  // Timestamps are of the server's clock, its `Date`. That is cut to whole seconds, so no wait is too short.
  const serverMs = readDate(get('Date')) ?? nowMs
  const source: Source = { get, ageMs: Math.max(0, nowMs - sentAtMs - MAX_TRIP_MS), serverMs }
  const limits: (ServerLimit | undefined)[] = []
  for (const [format, read] of FORMATS) if (format.test(names)) limits.push(...read(source))
  let resource: string | undefined
  for (const header of RESOURCE_HEADERS) resource ??= get(header)
  const retryAfterMs = /retry|reset-after/.test(names) ? readRetryAfter(source) : undefined
  return { limits: mergeLimits(limits), resource, retryAfterMs }
}

/** One limit may be reported in several formats at once. */
function mergeLimits(reports: readonly (ServerLimit | undefined)[]): ServerLimit[] {
  const limits: ServerLimit[] = []
  for (const report of reports) {
    if (!report) continue
    const at = limits.findIndex((known) => isSameLimit(known, report))
    if (at < 0) limits.push(report)
    else
      limits[at] = {
        ...limits[at],
        ...Object.fromEntries(Object.entries(report).filter(([, value]) => value !== undefined)),
      }
  }
  return limits.slice(0, MAX_LIMITS)
}

/** A window may be left out in one of the formats. */
function isSameLimit(known: ServerLimit, { name, limit, windowMs, resetMs = 0 }: ServerLimit): boolean {
  if (known.name !== undefined && name !== undefined) return known.name === name
  if (known.limit !== limit) return false
  return (
    known.windowMs === undefined || (windowMs === undefined ? known.windowMs >= resetMs : known.windowMs === windowMs)
  )
}

/** The later of what can be read: proxies add a header of their own. Its seconds count from the response (RFC 9110, §10.2.3). */
function readRetryAfter({ get, serverMs }: Source): number | undefined {
  const field = get('Retry-After')
  const texts = readDate(field) === undefined ? (field?.split(',') ?? []) : [field]
  const ms = readNumber(get('retry-after-ms')) ?? 0
  const times = [...texts, get('X-Retry-In'), get('X-RateLimit-Reset-After')].map(
    (text) => readTime(text?.trim(), serverMs) ?? 0,
  )
  return Math.ceil(Math.max(ms, ...times)) || undefined
}

/** Drafts 6 to 11 and their successor. */
function readDraft(source: Source): ServerLimit[] {
  const limits = new Map<string, ServerLimit>()
  const isRequests = ([, parameters]: Member) => (parameters.get('qu') ?? 'requests').toString() === 'requests'
  const policies = parseField(source.get('RateLimit-Policy'), parseList) ?? []
  for (const [item, parameters] of policies.filter(isRequests)) {
    // Before draft 8, the item is the limit.
    const limit = toCount(parameters.get('q') ?? item)
    const windowMs = toMs(parameters.get('w')) || undefined
    const name = readName(item) ?? `${limit}/${windowMs}`
    if (limit && (windowMs || parameters.has('q'))) limits.set(name, { name: readName(item), limit, windowMs })
  }
  const others = new Set(policies.filter((policy) => !isRequests(policy)).map(([item]) => readName(item)))
  for (const [item, parameters] of parseField(source.get('RateLimit'), parseList) ?? []) {
    const name = readName(item)
    const remaining = toCount(parameters.get('a') ?? parameters.get('r'))
    if (name === undefined || remaining === undefined || others.has(name)) continue
    const time = parameters.get('w') ?? parameters.get('t')
    const resetMs = toMs(time) === undefined ? undefined : readReset(source, String(time))
    limits.set(name, { ...limits.get(name), name, remaining, resetMs })
  }
  const state = parseField(source.get('RateLimit'), parseDictionary)
  const [limit, remaining, reset] = ['limit', 'remaining', 'reset'].map((key) => state?.get(key)?.[0])
  if (toCount(limit) !== undefined && toCount(remaining) !== undefined) {
    const resetMs = toMs(reset) === undefined ? undefined : readReset(source, String(reset))
    return [...limits.values(), { limit: toCount(limit) || undefined, remaining: toCount(remaining), resetMs }]
  }
  return [...limits.values()]
}

/** Three headers: `-Limit`, `-Remaining`, `-Reset`, where more limits and their windows may follow the first. */
function readTriple(source: Source, prefix: string): (ServerLimit | undefined)[] {
  const text = source.get(`${prefix}-Limit`)
  const remaining = source.get(`${prefix}-Remaining`)
  const used = source.get(`${prefix}-Used`)
  const resetMs = readReset(source, source.get(`${prefix}-Reset-After`) ?? source.get(`${prefix}-Reset`))
  // Reddit leaves the limit out.
  const sum = used === undefined ? undefined : Math.round(Number(used) + Number(remaining))
  const state = toLimit({ limit: text ?? (sum ? String(sum) : undefined), remaining, resetMs })
  const policies = text?.includes(',') ? parseField(text, parseList)?.slice(1) : undefined
  const windows = (policies ?? []).map(([item, parameters]) =>
    toLimit({ limit: String(item), remaining: undefined, windowMs: toMs(parameters.get('w')) }),
  )
  // A bucket of Spring has one of these headers, too.
  return text === undefined && resetMs === undefined ? [] : [...windows, state]
}

/** Limits of a quarter of an hour and a day, which end as those of UTC do. */
function readStrava({ get, serverMs }: Source): Limits {
  const [limits, used] = ['Limit', 'Usage'].map((field) => get(`X-RateLimit-${field}`)?.split(',') ?? [])
  return [15 * WINDOWS_MS.Minute, DAY_MS].map((windowMs, index) => {
    const [limit, count] = [limits, used].map((texts) => readNumber(texts?.[index]?.trim()))
    if (limit === undefined || count === undefined) return undefined
    const remaining = String(Math.max(0, limit - count))
    return toLimit({ limit: String(limit), remaining, windowMs, resetMs: windowMs - (serverMs % windowMs) })
  })
}

/** A bucket for each unit, with a header for each of its values. */
function readUnits(source: Source, units: readonly string[], format: (unit: string, value: string) => string) {
  return units.map((unit) => {
    const [limit, remaining, reset] = ['limit', 'remaining', 'reset'].map((value) => source.get(format(unit, value)))
    const fullMs = readTime(reset, source.serverMs - source.ageMs)
    return toBucket({ name: unit, unit: unit === 'requests' ? undefined : unit, limit, remaining, fullMs })
  })
}

/** @returns milliseconds from now; less than 0 if that was while the answer took its time */
function readReset(source: Source, text: string | undefined): number | undefined {
  const ms = readTime(text, source.serverMs - source.ageMs)
  return ms === undefined ? undefined : Math.ceil(ms - source.ageMs)
}

interface Texts extends Pick<ServerLimit, 'name' | 'unit' | 'windowMs' | 'resetMs' | 'refillPerS'> {
  readonly limit: string | undefined
  readonly remaining: string | undefined
}

function toLimit({ limit, remaining, ...others }: Texts): ServerLimit | undefined {
  const [units, left] = [readNumber(limit), readNumber(remaining)]
  if (units === undefined && left === undefined) return undefined
  return { ...others, limit: (units && Math.floor(units)) || undefined, remaining: left && Math.floor(left) }
}

/** The units that are missing come back evenly until it is full. */
function toBucket({ fullMs, ...texts }: Texts & { readonly fullMs: number | undefined }): ServerLimit | undefined {
  const limit = toLimit(texts)
  if (!limit?.limit || limit.remaining === undefined || fullMs === undefined) return limit
  const missing = limit.limit - limit.remaining
  return missing > 0 && fullMs > 0 ? { ...limit, refillPerS: (missing / fullMs) * SECOND_MS } : limit
}

type Member = readonly [unknown, Parameters]

function parseField<T>(field: string | undefined, parse: (text: string) => T): T | undefined {
  try {
    return field === undefined ? undefined : parse(field)
  } catch {
    // In another format, or invalid: a header that does not parse is ignored as a whole (RFC 9651, §4.2).
    return undefined
  }
}

/** A name is a string; tokens are accepted too, because some servers send them. */
function readName(item: unknown): string | undefined {
  if (typeof item === 'string') return item
  return item instanceof Token ? item.toString() : undefined
}

/** The number at the beginning of a header. */
function readNumber(text: string | undefined): number | undefined {
  const number = /^\d{1,15}(?:\.\d{1,9})?(?![\w.])/.exec(text ?? '')?.[0]
  return number === undefined ? undefined : Number(number)
}

function toCount(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 ? Math.floor(value) : undefined
}

function toMs(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 && value < MIN_EPOCH_S ? Math.ceil(value * SECOND_MS) : undefined
}

const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: SECOND_MS, m: 60_000, h: 3_600_000, d: DAY_MS }

/** @returns milliseconds: a number of seconds, a duration as Go writes it (`1m30.5s`), or what is left until a time since 1970, or a date */
function readTime(text: string | undefined, serverMs: number): number | undefined {
  if (text === undefined) return undefined
  if (/^\d{1,15}(?:\.\d{1,9})?$/.test(text)) {
    const number = Number(text)
    if (number < MIN_EPOCH_S) return Math.ceil(number * SECOND_MS)
    return number * (number < MIN_EPOCH_MS ? SECOND_MS : 1) - serverMs
  }
  const atMs = readDate(text)
  if (atMs !== undefined) return atMs - serverMs
  if (!/^(?:\d{1,9}(?:\.\d{1,9})?(?:ms|s|m|h|d))+$/.test(text)) return undefined
  const parts = [...text.matchAll(/([\d.]+)([a-z]+)/g)]
  return parts.reduce((sum, [, number, unit = '']) => sum + Number(number) * (UNITS_MS[unit] ?? 0), 0)
}

/** The three forms of an HTTP date begin with a day's name (RFC 9110, §5.6.7); RFC 3339 begins with the year. */
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? /
const RFC_3339 = /^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)$/

function readDate(text: string | undefined): number | undefined {
  if (text === undefined || !(HTTP_DATE.test(text) || RFC_3339.test(text))) return undefined
  // The oldest form, of asctime(), has no zone, but means UTC.
  const ms = Date.parse(text.endsWith('GMT') || RFC_3339.test(text) ? text : `${text} GMT`)
  return Number.isNaN(ms) ? undefined : ms
}
