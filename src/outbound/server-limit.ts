/**
 * Reads what a server says about its limits: draft-ietf-httpapi-ratelimit-headers in its versions 6 to 11, and
 * `X-RateLimit-*`. Where a response speaks several dialects, the one that says most is read. Nothing is guessed: what
 * cannot be read is as if it were not there.
 */
import { type BareItem, type Parameters, parseDictionary, parseList, Token } from 'structured-headers'
import { readHttpDate, serverTime } from './retry-after.ts'

/** What a response says about one limit. */
export interface ServerLimit {
  /** What the server calls it, or its window in dialects without names. */
  readonly name: string
  /** Units in a window, an integer from 1. */
  readonly limit?: number
  readonly windowMs?: number
  /** Units left, an integer from 0. */
  readonly remaining?: number
  /** Milliseconds during which no more than `remaining` can be used. */
  readonly resetMs?: number
}

/** More than any server has, so that one that lists thousands costs nothing. */
const MAX_LIMITS = 16

/** Fields longer than this are not read. */
const MAX_CHARACTERS = 4_000

/** No window is this long (31 years), and no moment in seconds since 1970 is this early (2001). */
const EARLIEST_EPOCH_S = 1e9
/** The same in milliseconds. */
const EARLIEST_EPOCH_MS = 1e12

/** @param nowMs milliseconds since the Unix epoch */
export function readServerLimits(headers: Headers, nowMs: number): ServerLimit[] {
  const policies = parsed(headers.get('RateLimit-Policy'), parseList)
  const standings = parsed(headers.get('RateLimit'), parseList)
  const limits =
    named(policies, standings) ?? unnamed(headers, nowMs, policies) ?? prefixed(headers, nowMs, 'X-RateLimit')
  return (limits ?? []).slice(0, MAX_LIMITS)
}

type Members = readonly [unknown, Parameters][]

/** Draft 8 and later: items with names, `"burst";q=10;w=1` and `"burst";r=3;t=1`. */
function named(policies: Members | undefined, standings: Members | undefined): ServerLimit[] | undefined {
  const limits = new Map<string, ServerLimit>()
  const otherUnits = new Set<string>()
  for (const [item, parameters] of policies ?? []) {
    const name = nameOf(item)
    if (name === undefined) continue
    const unit = parameters.get('qu')
    if (unit !== undefined && unit.toString() !== 'requests') otherUnits.add(name)
    else {
      const limit = count(parameters.get('q'))
      if (limit) limits.set(name, { name, limit, ...window(parameters.get('w')) })
    }
  }
  for (const [item, parameters] of standings ?? []) {
    const name = nameOf(item)
    const remaining = count(parameters.get('r'))
    if (name === undefined || otherUnits.has(name) || remaining === undefined) continue
    limits.set(name, { ...limits.get(name), name, remaining, ...reset(seconds(parameters.get('t'))) })
  }
  return limits.size + otherUnits.size > 0 ? [...limits.values()] : undefined
}

/** Drafts 6 and 7: policies are `10;w=1`; how one of them stands is told by one field (7) or three (6). */
function unnamed(headers: Headers, nowMs: number, policies: Members | undefined): ServerLimit[] | undefined {
  const standing = draft7(headers) ?? prefixed(headers, nowMs, 'RateLimit')?.[0]
  // Before draft 6, policies followed the limit in its own field.
  const listed = [...(policies ?? []), ...(parsed(headers.get('RateLimit-Limit'), parseList)?.slice(1) ?? [])]
  const byWindow = new Map<string, ServerLimit>()
  for (const [item, parameters] of listed) {
    const limit = count(item)
    const length = window(parameters.get('w'))
    if (!limit || !length) continue
    const name = `w=${length.windowMs / 1000}`
    byWindow.set(name, { name, limit: Math.min(limit, byWindow.get(name)?.limit ?? limit), ...length })
  }
  const limits = [...byWindow.values()]
  if (!standing) return limits.length > 0 ? limits : undefined
  const told = limits.find(({ limit, windowMs = 0 }) => {
    return limit === standing.limit && windowMs >= (standing.resetMs ?? 0)
  })
  if (!told) return [...limits, standing]
  const { name, ...rest } = standing
  return limits.map((limit) => (limit === told ? { ...limit, ...rest } : limit))
}

function draft7(headers: Headers): ServerLimit | undefined {
  const members = parsed(headers.get('RateLimit'), parseDictionary)
  const limit = count(members?.get('limit')?.[0])
  const remaining = count(members?.get('remaining')?.[0])
  if (limit === undefined && remaining === undefined) return undefined
  return standingOf(limit, remaining, seconds(members?.get('reset')?.[0]))
}

/** Three fields: `-Limit`, `-Remaining`, `-Reset`. */
function prefixed(headers: Headers, nowMs: number, prefix: string): ServerLimit[] | undefined {
  const number = (field: string) => /^\s*(\d{1,15})\b/.exec(headers.get(`${prefix}-${field}`) ?? '')?.[1]
  const [limit, remaining] = [count(Number(number('Limit'))), count(Number(number('Remaining')))]
  if (limit === undefined && remaining === undefined) return undefined
  return [standingOf(limit, remaining, untilReset(headers, nowMs, headers.get(`${prefix}-Reset`)))]
}

function standingOf(limit: number | undefined, remaining: number | undefined, resetMs: number | undefined) {
  return {
    name: 'default',
    ...(limit && { limit }),
    ...(remaining !== undefined && { remaining }),
    ...reset(resetMs),
  }
}

/** A reset is a number of seconds, or a moment: in seconds or milliseconds since 1970, or an HTTP date. */
function untilReset(headers: Headers, nowMs: number, field: string | null): number | undefined {
  const text = field?.trim() ?? ''
  const dateMs = readHttpDate(text)
  const number = /^\d{1,15}(?:\.\d{1,9})?$/.test(text) ? Number(text) : undefined
  if (dateMs === undefined && number === undefined) return undefined
  if (number !== undefined && number < EARLIEST_EPOCH_S) return Math.ceil(number * 1000)
  const atMs = dateMs ?? (number as number) * ((number as number) < EARLIEST_EPOCH_MS ? 1000 : 1)
  return Math.max(0, Math.ceil(atMs - serverTime(headers, nowMs)))
}

function parsed<T>(field: string | null, parse: (text: string) => T): T | undefined {
  if (field === null || field.length > MAX_CHARACTERS) return undefined
  try {
    return parse(field)
  } catch {
    // In another dialect, or invalid: a field that does not parse is ignored as a whole (RFC 9651, §4.2).
    return undefined
  }
}

/** A name is a string; tokens are accepted too, because some servers send them. */
function nameOf(item: unknown): string | undefined {
  if (typeof item === 'string') return item
  return item instanceof Token ? item.toString() : undefined
}

function count(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 ? Math.floor(value) : undefined
}

function seconds(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 && value < EARLIEST_EPOCH_S ? Math.ceil(value * 1000) : undefined
}

function window(value: BareItem | undefined): { readonly windowMs: number } | undefined {
  const windowMs = seconds(value)
  return windowMs ? { windowMs } : undefined
}

function reset(resetMs: number | undefined): { readonly resetMs?: number } {
  return resetMs === undefined ? {} : { resetMs }
}
