/** Makes a request of what an operator knows of a caller. */
import { isIP } from 'node:net'
import { type PairKind, parsePointer } from '../../core/model/identity-source.ts'
import { type Claims, findClaim } from '../../http/request/identity/claims.ts'
import { CallerError } from './caller-in-text.ts'

export type Pairs = readonly (readonly [name: string, value: string])[]

/** A caller as an operator knows it. Members of a JSON body are named by their pointers, such as `/user/id`. */
export interface Caller extends Partial<Readonly<Record<PairKind, Pairs | undefined>>> {
  readonly token?: string | undefined
  readonly ip?: string | undefined
  readonly claim?: Claims | undefined
  /** `METHOD /path` of a request; policies that do not apply to it are skipped. */
  readonly route?: string | undefined
}

/** The reader takes the known claims, whatever the token is: it is not verified. */
export function createClaimReader(claims: Claims = {}) {
  return (path: readonly string[]) => findClaim(claims, path)
}

export const NO_RESPONSE = { waitUntil() {} }

/** Stands for an unknown address: it belongs to no network and no caller. */
const NO_ADDRESS = '0.0.0.0'

/** @throws {CallerError} if the caller can send no such request */
export function createRequest(caller: Caller): Request {
  const { token, ip = NO_ADDRESS, claim: _, route = '/', header = [], query = [], cookie = [], ...inBody } = caller
  const { form = [], json = [], ...others } = inBody
  others satisfies Readonly<Record<keyof typeof others, never>>
  if (form.length > 0 && json.length > 0) throw new CallerError('expected a form or a JSON body, not both', 'json')
  const { method, path } = readRoute(route, form.length + json.length > 0 ? 'POST' : 'GET')
  const fields = form.map(([name, value]) => [name, value])
  const jsonBody = json.length > 0 ? createJsonBody(json) : null
  const body = form.length > 0 ? new URLSearchParams(fields) : jsonBody
  if (isIP(ip) === 0) throw new CallerError('expected an IPv4 or IPv6 address', 'ip')
  try {
    const url = new URL(`https://gateway.invalid${path}`)
    for (const [name, value] of query) url.searchParams.append(name, value)
    const headers = new Headers(header.map(([name, value]) => [name, value]))
    if (token !== undefined) headers.set('Authorization', token)
    headers.set('CF-Connecting-IP', ip)
    if (cookie.some(([name, value]) => /[;=]/.test(name) || value.includes(';')))
      throw new CallerError('expected a name and a value without ";"', 'cookie')
    if (cookie.length > 0) {
      const cookies = cookie.map(([name, value]) => `${name}=${value}`)
      headers.set('Cookie', [...(headers.get('Cookie')?.split('; ') ?? []), ...cookies].join('; '))
    }
    return new Request(url, { method, headers, body })
  } catch (error) {
    if (error instanceof CallerError) throw error
    // The message of the error would repeat values of headers.
    throw new CallerError('that cannot be a request: its method, a header or its body is not what HTTP allows')
  }
}

/** @throws {CallerError} */
function readRoute(route: string, defaultMethod: string): { readonly method: string; readonly path: string } {
  const [, method = defaultMethod, path] = /^\s*(?:([A-Za-z]+)\s+)?(?:https?:\/\/[^/\s]+)?(\/\S*)\s*$/.exec(route) ?? []
  if (path !== undefined) return { method: method.toUpperCase(), path }
  throw new CallerError(`expected a request such as "POST /login", got ${JSON.stringify(route.slice(0, 100))}`, 'route')
}

/** @throws {CallerError} */
function createJsonBody(members: Pairs): string {
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
