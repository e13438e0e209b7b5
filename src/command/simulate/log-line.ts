/** Reads lines of access logs: Common, Combined and JSON. */
import { isIP } from 'node:net'
import { CommandError } from '../command-error.ts'

export interface LogEntry {
  /** Milliseconds since the Unix epoch; may have a fraction. */
  readonly timeMs: number
  readonly method: string
  /** A path with its query, or a whole URL. */
  readonly target: string
  readonly ip: string | undefined
  readonly token: string | undefined
  /** Other headers, by their names in lower case. */
  readonly headers: ReadonlyMap<string, string>
  readonly status: number | undefined
  /** Costs that its response named, by their texts in `actual_cost`. */
  readonly costs?: ReadonlyMap<string, number>
}

/** Names of the members of a line of JSON; the first one that it has counts. Headers have their names in lower case. */
export type FieldMap = Readonly<Record<Field | `header.${string}` | `cost.${string}`, readonly string[]>>

type Field = 'time' | 'ip' | 'method' | 'path' | 'request' | 'token' | 'status'
type LogRow = Readonly<Record<string, unknown>>

/** The names that nginx, Caddy's flat logs and Cloudflare's Logpush use. */
export const USUAL_FIELDS: FieldMap = {
  time: ['time', 'timestamp', '@timestamp', 'time_iso8601', 'msec', 'time_local', 'ts', 'EdgeStartTimestamp'],
  ip: ['ip', 'remote_addr', 'client_ip', 'remote_ip', 'ClientIP'],
  method: ['method', 'request_method', 'ClientRequestMethod'],
  path: ['path', 'request_uri', 'uri', 'url', 'ClientRequestURI'],
  request: ['request'],
  token: ['authorization', 'http_authorization', 'remote_user'],
  status: ['status', 'EdgeResponseStatus'],
  'cost.bytes': ['body_bytes_sent', 'size', 'EdgeResponseBytes'],
}

const HEADER = 'header.'
const COST = 'cost.'
const FIELDS_EXPECTED =
  'pairs such as time=ts,ip=client.ip,header.x-key=key (of time, ip, method, path, request, token, status, header.<name>, cost.<actual_cost>)'

/** `address ident user [time] "request" status bytes`, and in the Combined format `"referer" "user agent"`. */
const COMMON_LINE =
  /^(?<ip>\S+) \S+ (?<remote_user>[^[]*) \[(?<time>[^\]]*)\] "(?<request>(?:[^"\\]|\\.)*)" (?<status>\d{3}|-) (?<bytes>\S+)(?: "(?<referer>(?:[^"\\]|\\.)*)" "(?<agent>(?:[^"\\]|\\.)*)")?/
const COMMON_FIELDS: FieldMap = {
  ...USUAL_FIELDS,
  path: [],
  'cost.bytes': ['bytes'],
  'header.referer': ['referer'],
  'header.user-agent': ['agent'],
}
const COMMON_TIME = /^(\d{2})\/([A-Z][a-z]{2})\/(\d{4}):(\d{2}:\d{2}:\d{2} [+-]\d{4})$/
/** Numbers below these are seconds, milliseconds and microseconds: each is right for the years 1973 to 5138. */
const TIME_UNITS = [
  [1e11, 1_000],
  [1e14, 1],
  [1e17, 1e-3],
  [Number.POSITIVE_INFINITY, 1e-6],
] as const
const MAX_TIME_MS = 1e14

/** Reads `time=…,ip=…,header.x-key=…`; the other names stay the usual ones. @throws {CommandError} */
export function parseFields(text: string): FieldMap {
  const fields: Record<string, readonly string[]> = { ...USUAL_FIELDS }
  for (const pair of text.split(',')) {
    const [, name = '', from] = /^\s*([^\s=]+)=(\S+)\s*$/.exec(pair) ?? []
    const isHeader = /^header\.[\w-]+$/.test(name)
    if (from === undefined || !(isHeader || name.startsWith(COST) || Object.hasOwn(USUAL_FIELDS, name))) {
      throw new CommandError(`--fields: expected ${FIELDS_EXPECTED}, got ${JSON.stringify(pair.slice(0, 100))}`)
    }
    fields[isHeader ? name.toLowerCase() : name] = [from]
  }
  return fields as FieldMap
}

/** Reads JSON, or the Common and Combined Log Format, whose user stands for a token. */
export function readLogLine(line: string, fields: FieldMap): LogEntry | undefined {
  const isJson = line.startsWith('{')
  const row = isJson ? parseRow(line) : COMMON_LINE.exec(line)?.groups
  return row && readRow(row, isJson ? fields : COMMON_FIELDS)
}

function parseRow(line: string): LogRow | undefined {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}

function readRow(row: LogRow, fields: FieldMap): LogEntry | undefined {
  const timeMs = readTime(findFirst(row, fields.time))
  const target = readTarget(row, fields)
  if (timeMs === undefined || !target) return undefined
  const headers = new Map<string, string>()
  const costs = new Map<string, number>()
  for (const [name, from] of Object.entries(fields)) {
    const value = name.startsWith(HEADER) ? toText(findFirst(row, from)) : undefined
    if (value !== undefined) headers.set(name.slice(HEADER.length), value)
    const cost = name.startsWith(COST) ? toText(findFirst(row, from)) : undefined
    if (cost !== undefined && Number(cost) >= 0) costs.set(name.slice(COST.length), Number(cost))
  }
  const ip = toAddress(findFirst(row, fields.ip))
  const token = toText(findFirst(row, fields.token))
  const status = Number(findFirst(row, fields.status))
  return { ...target, timeMs, ip, token, headers, costs, status: Number.isInteger(status) ? status : undefined }
}

/** @returns undefined if the row has no path, and no request line (RFC 9112 §3) with one */
function readTarget(row: LogRow, fields: FieldMap): Pick<LogEntry, 'method' | 'target'> | undefined {
  const path = toText(findFirst(row, fields.path)) ?? ''
  if (/^(?:https?:\/\/|\/)/.test(path)) return { method: toText(findFirst(row, fields.method)) ?? 'GET', target: path }
  const line = toText(findFirst(row, fields.request)) ?? ''
  const [, method, target] = /^([A-Za-z-]{1,30}) ((?:https?:\/\/|\/)\S*)(?: HTTP\/[\d.]+)?$/.exec(line) ?? []
  return method === undefined || target === undefined ? undefined : { method, target }
}

function findFirst(row: LogRow, names: readonly string[]): unknown {
  for (const name of names) {
    const value = findMember(row, name)
    if (value !== undefined) return value
  }
  return undefined
}

/** @param name of a member; dots in it lead to members of members, unless a member has that very name */
function findMember(row: LogRow, name: string): unknown {
  if (row[name] !== undefined) return row[name]
  return name.split('.').reduce<unknown>((at, part) => (at as LogRow | null | undefined)?.[part], row)
}

/** Logs write "-" or nothing for what a request lacks. */
function toText(value: unknown): string | undefined {
  const text = typeof value === 'number' ? String(value) : value
  return typeof text === 'string' && text !== '' && text !== '-' ? text : undefined
}

/** Reads the first of several addresses, with a port or without. */
function toAddress(value: unknown): string | undefined {
  const first = toText(value)?.split(',', 1)[0]?.trim() ?? ''
  const [, bare = first] = /^\[([^\]]+)\](?::\d+)?$/.exec(first) ?? /^([\d.]+):\d+$/.exec(first) ?? []
  return isIP(bare) === 0 ? undefined : bare
}

/** Reads s, ms, µs or ns since the Unix epoch, RFC 3339, or the Common Log Format. @returns ms since the Unix epoch */
function readTime(value: unknown): number | undefined {
  const text = `${value}`
  const isNumber = typeof value === 'number' || /^\d{1,19}(?:\.\d{1,9})?$/.test(text)
  const [, unitMs = 1] = TIME_UNITS.find(([below]) => Number(value) < below) ?? []
  const ms = isNumber ? Number(value) * unitMs : Date.parse(text.replace(COMMON_TIME, '$1 $2 $3 $4'))
  return (isNumber || /^\d{4}-/.test(text) || COMMON_TIME.test(text)) && ms >= 0 && ms < MAX_TIME_MS ? ms : undefined
}
