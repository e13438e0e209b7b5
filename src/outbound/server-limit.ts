/**
 * Reads the limits that a server reports: draft-ietf-httpapi-ratelimit-headers in its versions 6 to 11, and
 * `X-RateLimit-*`. The most informative format counts; a header that cannot be read counts as missing.
 */
import { type Parameters, parseDictionary, parseList, Token } from 'structured-headers'

export interface ServerLimit {
  /** The server's own name for it, or its window in formats without names. */
  readonly name: string
  /** Units in a window, an integer from 1. */
  readonly limit?: number | undefined
  readonly windowMs?: number | undefined
  /** Units left, an integer from 0. */
  readonly remaining?: number | undefined
  /** Milliseconds during which no more than `remaining` can be used. */
  readonly resetMs?: number | undefined
}

/** A server that reports thousands costs nothing. */
export const MAX_LIMITS = 16
/** Longer headers are not read. */
const MAX_CHARACTERS = 4_000
/** No window is this long (31 years), and no timestamp is this early (2001). */
const MIN_EPOCH_S = 1e9
const MIN_EPOCH_MS = 1e12

export interface Answer {
  /** It refuses the call for now, with 429 or 503. */
  readonly isRefusal: boolean
  readonly retryAfterMs: number | undefined
  readonly limits: readonly ServerLimit[]
}

export function readServerLimits(headers: Headers, nowMs: number): ServerLimit[] {
  const policies = parseField(headers.get('RateLimit-Policy'), parseList)
  const states = parseField(headers.get('RateLimit'), parseList)
  const limits = readNamed(policies, states) ??
    readUnnamed(headers, nowMs, policies) ?? [readPrefixed(headers, nowMs, 'X-RateLimit')]
  return limits.filter((limit) => limit !== undefined).slice(0, MAX_LIMITS)
}

type Members = readonly [unknown, Parameters][]

/** Draft 8 and later: items with names, `"burst";q=10;w=1` and `"burst";r=3;t=1`. */
function readNamed(policies: Members | undefined, states: Members | undefined): ServerLimit[] | undefined {
  const limits = new Map<string, ServerLimit>()
  const otherUnits = new Set<string>()
  for (const [item, parameters] of policies ?? []) {
    const name = readName(item)
    if (name === undefined) continue
    const limit = toCount(parameters.get('q'))
    if ((parameters.get('qu') ?? 'requests').toString() !== 'requests') otherUnits.add(name)
    else if (limit) limits.set(name, { name, limit, windowMs: toWindow(parameters) })
  }
  for (const [item, parameters] of states ?? []) {
    const name = readName(item)
    const remaining = toCount(parameters.get('r'))
    if (name === undefined || otherUnits.has(name) || remaining === undefined) continue
    limits.set(name, { ...limits.get(name), name, remaining, resetMs: toMs(parameters.get('t')) })
  }
  return limits.size + otherUnits.size > 0 ? [...limits.values()] : undefined
}

/** Drafts 6 and 7: policies are `10;w=1`; the state of one of them is in one header (7) or three (6). */
function readUnnamed(headers: Headers, nowMs: number, policies: Members | undefined): ServerLimit[] | undefined {
  const state = readDraft7(headers) ?? readPrefixed(headers, nowMs, 'RateLimit')
  // Before draft 6, policies followed the limit in its own header.
  const items = [...(policies ?? []), ...(parseField(headers.get('RateLimit-Limit'), parseList)?.slice(1) ?? [])]
  const byWindow = new Map<string, ServerLimit>()
  for (const [item, parameters] of items) {
    const limit = toCount(item)
    const windowMs = toWindow(parameters)
    if (!limit || !windowMs) continue
    const name = `w=${windowMs / 1000}`
    byWindow.set(name, { name, limit: Math.min(limit, byWindow.get(name)?.limit ?? limit), windowMs })
  }
  const limits = [...byWindow.values()]
  if (!state) return limits.length > 0 ? limits : undefined
  const { limit, remaining, resetMs } = state
  const at = limits.findIndex((policy) => policy.limit === limit && (policy.windowMs ?? 0) >= (resetMs ?? 0))
  const policy = limits[at]
  return policy ? limits.with(at, { ...policy, remaining, resetMs }) : [...limits, state]
}

function readDraft7(headers: Headers): ServerLimit | undefined {
  const members = parseField(headers.get('RateLimit'), parseDictionary)
  const limit = toCount(members?.get('limit')?.[0])
  const remaining = toCount(members?.get('remaining')?.[0])
  return toState(limit, remaining, toMs(members?.get('reset')?.[0]))
}

/** Three headers: `-Limit`, `-Remaining`, `-Reset`. */
function readPrefixed(headers: Headers, nowMs: number, prefix: string): ServerLimit | undefined {
  const number = (field: string) => /^\s*(\d{1,15})\b/.exec(headers.get(`${prefix}-${field}`) ?? '')?.[1]
  const [limit, remaining] = [toCount(Number(number('Limit'))), toCount(Number(number('Remaining')))]
  return toState(limit, remaining, readReset(headers, nowMs, headers.get(`${prefix}-Reset`)))
}

function toState(limit: number | undefined, remaining: number | undefined, resetMs: number | undefined) {
  if (limit === undefined && remaining === undefined) return undefined
  return { name: 'default', limit: limit || undefined, remaining, resetMs }
}

/** A reset is a number of seconds, or a timestamp: in seconds or milliseconds since 1970, or an HTTP date. */
function readReset(headers: Headers, nowMs: number, field: string | null): number | undefined {
  const text = field?.trim() ?? ''
  const dateMs = readHttpDate(text)
  const number = /^\d{1,15}(?:\.\d{1,9})?$/.test(text) ? Number(text) : undefined
  if (number !== undefined && number < MIN_EPOCH_S) return Math.ceil(number * 1000)
  const atMs = dateMs ?? (number && number * (number < MIN_EPOCH_MS ? 1000 : 1))
  return atMs === undefined ? undefined : Math.max(0, Math.ceil(atMs - readServerTime(headers, nowMs)))
}

function parseField<T>(field: string | null, parse: (text: string) => T): T | undefined {
  if (field === null || field.length > MAX_CHARACTERS) return undefined
  try {
    return parse(field)
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

function toCount(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 ? Math.floor(value) : undefined
}

function toMs(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 && value < MIN_EPOCH_S ? Math.ceil(value * 1000) : undefined
}

function toWindow(parameters: Parameters): number | undefined {
  return toMs(parameters.get('w')) || undefined
}

/** Names of days, long or short, as all three forms of an HTTP date begin (RFC 9110, §5.6.7). */
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? /

/** Reads `Retry-After` (RFC 9110, §10.2.3), in seconds or as a date. @returns milliseconds from now, at least 0 */
export function readRetryAfter(headers: Headers, nowMs: number): number | undefined {
  const text = headers.get('Retry-After')?.trim() ?? ''
  if (/^\d{1,12}$/.test(text)) return Number(text) * 1000
  const dateMs = readHttpDate(text)
  return dateMs === undefined ? undefined : Math.max(0, dateMs - readServerTime(headers, nowMs))
}

/** Timestamps are of the server's clock, its `Date`. That is cut to whole seconds, so no wait is too short. */
function readServerTime(headers: Headers, nowMs: number): number {
  return readHttpDate(headers.get('Date')?.trim() ?? '') ?? nowMs
}

/** @returns undefined for anything but an HTTP date */
function readHttpDate(text: string): number | undefined {
  if (!HTTP_DATE.test(text)) return undefined
  // The oldest form, of asctime(), has no zone, but means UTC.
  const ms = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`)
  return Number.isNaN(ms) ? undefined : ms
}
