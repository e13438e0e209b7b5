import { CommandError } from '../command-error.ts'
import { type LineReader, type LogEntry, readRequestLine } from './log-entry.ts'
import { createTimeReader } from './log-time.ts'

/** Where a line of JSON holds what is read of it; the first name that it has counts. */
export interface FieldMap {
  readonly fields: Readonly<Record<Field, readonly string[]>>
  /** By the names of fields of the request, in lower case. */
  readonly headers: ReadonlyMap<string, string>
}

type Field = 'time' | 'ip' | 'method' | 'path' | 'request' | 'token' | 'status'

/** As nginx, Caddy's flat logs and Cloudflare's Logpush name them. */
const USUAL: FieldMap['fields'] = {
  time: ['time', 'timestamp', '@timestamp', 'time_iso8601', 'msec', 'time_local', 'ts', 'EdgeStartTimestamp'],
  ip: ['ip', 'remote_addr', 'client_ip', 'remote_ip', 'ClientIP'],
  method: ['method', 'request_method', 'ClientRequestMethod'],
  path: ['path', 'request_uri', 'uri', 'url', 'ClientRequestURI'],
  request: ['request'],
  token: ['authorization', 'http_authorization', 'remote_user'],
  status: ['status', 'EdgeResponseStatus'],
}

export const USUAL_FIELDS: FieldMap = { fields: USUAL, headers: new Map() }

const EXPECTED =
  'pairs such as time=ts,ip=client.ip,header.x-key=key (of time, ip, method, path, request, token, status, header.<name>)'

/** Reads `time=…,ip=…,header.x-key=…`; what it does not name is as usual. @throws {CommandError} */
export function parseFields(text: string): FieldMap {
  const fields = { ...USUAL }
  const headers = new Map<string, string>()
  for (const pair of text.split(',')) {
    const [, name = '', from] = /^\s*([\w.@-]+)=(\S+)\s*$/.exec(pair) ?? []
    const header = /^header\.([\w-]+)$/.exec(name)?.[1]
    const isField = Object.hasOwn(USUAL, name)
    if (from === undefined || (header === undefined && !isField)) {
      throw new CommandError(`--fields: expected ${EXPECTED}, got ${JSON.stringify(pair.slice(0, 100))}`)
    }
    if (header === undefined) fields[name as Field] = [from]
    else headers.set(header.toLowerCase(), from)
  }
  return { fields, headers }
}

/** Reads lines of JSON: an object each. */
export function createJsonReader({ fields, headers }: FieldMap): LineReader {
  const readTime = createTimeReader()
  return function readJson(line) {
    const row = parsed(line)
    if (!row) return undefined
    const timeMs = readTime(firstOf(row, fields.time))
    const target = targetOf(row)
    if (timeMs === undefined || !target) return undefined
    const sent = new Map<string, string>()
    for (const [name, from] of headers) {
      const value = textOf(memberOf(row, from))
      if (value !== undefined) sent.set(name, value)
    }
    const status = Number(firstOf(row, fields.status))
    return {
      ...target,
      timeMs,
      ip: textOf(firstOf(row, fields.ip)),
      token: textOf(firstOf(row, fields.token)),
      headers: sent,
      status: Number.isInteger(status) ? status : undefined,
    }
  }

  function targetOf(row: Row): Pick<LogEntry, 'method' | 'target'> | undefined {
    const target = textOf(firstOf(row, fields.path))
    const method = textOf(firstOf(row, fields.method)) ?? 'GET'
    if (target !== undefined && /^(?:https?:\/\/|\/)/.test(target)) return { method, target }
    const request = textOf(firstOf(row, fields.request))
    return request === undefined ? undefined : readRequestLine(request)
  }
}

type Row = Readonly<Record<string, unknown>>

function parsed(line: string): Row | undefined {
  try {
    const row: unknown = JSON.parse(line)
    return isRow(row) ? row : undefined
  } catch {
    return undefined
  }
}

function isRow(value: unknown): value is Row {
  return typeof value === 'object' && value !== null
}

function firstOf(row: Row, names: readonly string[]): unknown {
  for (const name of names) {
    const value = memberOf(row, name)
    if (value !== undefined) return value
  }
  return undefined
}

/** @param name of a member; dots in it lead to members of members, unless a member has that very name */
function memberOf(row: Row, name: string): unknown {
  const value = row[name]
  if (value !== undefined || !name.includes('.')) return value
  let at: unknown = row
  for (const part of name.split('.')) at = isRow(at) ? at[part] : undefined
  return at
}

/** Logs write "-" or nothing for what a request lacks. */
function textOf(value: unknown): string | undefined {
  const text = typeof value === 'number' ? String(value) : value
  return typeof text === 'string' && text !== '' && text !== '-' ? text : undefined
}
