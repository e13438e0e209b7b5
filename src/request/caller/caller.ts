import { isIP } from 'node:net'
import { type ClaimReader, type Claims, claimIn } from '../identity/claims.ts'
import { NONE } from '../identity/reading.ts'
import type { CallerKind } from '../identity/source.ts'
import { parsePointer } from '../identity/source.ts'
import { CallerError } from './caller-in-text.ts'

export type Pairs = readonly (readonly [name: string, value: string])[]

/** What is known of a caller, of each kind. */
interface Parts extends Record<CallerKind, unknown> {
  readonly token: string
  readonly ip: string
  readonly header: Pairs
  readonly query: Pairs
  readonly cookie: Pairs
  readonly form: Pairs
  /** Members of a JSON body, by their pointers, such as `/user/id`. */
  readonly json: Pairs
  /** What its token says. */
  readonly claim: Claims
}

/** What is known of a caller. */
export interface Caller extends Partial<{ readonly [Kind in CallerKind]: Parts[Kind] | undefined }> {
  /** `METHOD /path` of a request; policies that do not apply to it are left out. */
  readonly route?: string | undefined
}

/** Reads what is known, whatever the token is: it is not verified here. */
export function createClaimReader(claims: Claims | undefined): ClaimReader {
  return (path) => (claims ? claimIn(claims, path) : NONE)
}

/** For what goes on after a response: here, there is none. */
export const NO_RESPONSE = { waitUntil() {} }

/** The address that is not known: of no network, and no caller's. */
const NO_ADDRESS = '0.0.0.0'

/**
 * A request of this caller.
 * @throws {CallerError} if it cannot be one
 */
export function createRequest({
  token,
  ip = NO_ADDRESS,
  header = [],
  query = [],
  cookie = [],
  form = [],
  json = [],
  route = '/',
}: Caller): Request {
  if (form.length > 0 && json.length > 0) throw new CallerError('expected a form or a JSON body, not both', 'json')
  const { method, path } = readRoute(route, form.length + json.length > 0 ? 'POST' : 'GET')
  const body = json.length > 0 ? bodyWith(json) : undefined
  if (isIP(ip) === 0) throw new CallerError('expected an IPv4 or IPv6 address', 'ip')
  try {
    const url = new URL(`https://gateway.invalid${path}`)
    for (const [name, value] of query) url.searchParams.append(name, value)
    const headers = new Headers(header.map(([name, value]) => [name, value]))
    if (token !== undefined) headers.set('Authorization', token)
    headers.set('CF-Connecting-IP', ip)
    if (cookie.length > 0) {
      const cookies = cookie.map(([name, value]) => `${name}=${value}`)
      headers.set('Cookie', [...(headers.get('Cookie')?.split('; ') ?? []), ...cookies].join('; '))
    }
    const fields = form.map(([name, value]) => [name, value])
    if (form.length > 0) return new Request(url, { method, headers, body: new URLSearchParams(fields) })
    return new Request(url, { method, headers, ...(body !== undefined && { body }) })
  } catch {
    // Not the message of the error, which repeats values of fields.
    throw new CallerError('that cannot be a request: its method, a field or its form is not what HTTP allows')
  }
}

/** @param byDefault the method, if none is named @throws {CallerError} */
function readRoute(route: string, byDefault: string): { readonly method: string; readonly path: string } {
  const [, method = byDefault, path] = /^\s*(?:([A-Za-z]+)\s+)?(?:https?:\/\/[^/\s]+)?(\/\S*)\s*$/.exec(route) ?? []
  if (path !== undefined) return { method: method.toUpperCase(), path }
  throw new CallerError(`expected a request such as "POST /login", got ${JSON.stringify(route.slice(0, 100))}`, 'route')
}

/** A JSON body with these members. @throws {CallerError} */
function bodyWith(members: Pairs): string {
  const body: Record<string, unknown> = Object.create(null)
  for (const [pointer, value] of members) {
    const path = parsePointer(pointer)?.slice()
    const name = path?.pop()
    if (!path || name === undefined) throw new CallerError('expected a pointer such as /user/id', 'json')
    let inner = body
    for (const token of path) {
      inner[token] ??= Object.create(null)
      if (typeof inner[token] !== 'object') throw new CallerError('expected each member once', 'json')
      inner = inner[token] as Record<string, unknown>
    }
    if (name in inner) throw new CallerError('expected each member once', 'json')
    inner[name] = value
  }
  return JSON.stringify(body)
}
