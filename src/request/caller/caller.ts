import { isIP } from 'node:net'
import { type ClaimReader, type Claims, claimIn } from '../identity/claims.ts'
import { NONE } from '../identity/reading.ts'
import { CallerError } from './caller-error.ts'

export type Pairs = readonly (readonly [name: string, value: string])[]

/** What is known of a caller. */
export interface Caller {
  readonly token?: string | undefined
  readonly ip?: string | undefined
  readonly header?: Pairs | undefined
  readonly query?: Pairs | undefined
  readonly form?: Pairs | undefined
  /** What its token says. */
  readonly claim?: Claims | undefined
  /** `METHOD /path` of a request; policies that do not apply to it are left out. */
  readonly route?: string | undefined
}

/** Reads what is known, whatever the token is: it is not verified here. */
export function claimReaderOf(claims: Claims | undefined): ClaimReader {
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
export function requestOf({
  token,
  ip = NO_ADDRESS,
  header = [],
  query = [],
  form = [],
  route = '/',
}: Caller): Request {
  const { method, path } = readRoute(route, form.length > 0 ? 'POST' : 'GET')
  if (isIP(ip) === 0) throw new CallerError('expected an IPv4 or IPv6 address', 'ip')
  try {
    const url = new URL(`https://gateway.invalid${path}`)
    for (const [name, value] of query) url.searchParams.append(name, value)
    const headers = new Headers(header.map(([name, value]) => [name, value]))
    if (token !== undefined) headers.set('Authorization', token)
    headers.set('CF-Connecting-IP', ip)
    const fields = form.map(([name, value]) => [name, value])
    return new Request(url, { method, headers, ...(form.length > 0 && { body: new URLSearchParams(fields) }) })
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
