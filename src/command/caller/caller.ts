import { CommandError } from '../command-error.ts'
import type { Pairs } from './options.ts'

/** What is known of a caller. */
export interface Caller {
  readonly token?: string | undefined
  readonly ip?: string | undefined
  readonly header?: Pairs | undefined
  readonly query?: Pairs | undefined
  readonly form?: Pairs | undefined
  /** `METHOD /path` of a request; policies that do not apply to it are left out. */
  readonly route?: string | undefined
}

/** The address that is not known: of no network, and no caller's. */
const NO_ADDRESS = '0.0.0.0'

/**
 * A request of this caller.
 * @throws {CommandError} if it cannot be one
 */
export function requestOf({
  token,
  ip = NO_ADDRESS,
  header = [],
  query = [],
  form = [],
  route = '/',
}: Caller): Request {
  const [, method = 'GET', path] =
    /^\s*(?:([A-Za-z]+)\s+)?(?:https?:\/\/[^/\s]+(?=\/|$))?(\/\S*)?\s*$/.exec(route) ?? []
  if (path === undefined && route.trim() === '') throw new CommandError('expected a request such as "POST /login"')
  try {
    const url = new URL(`https://gateway.invalid${path ?? badRoute(route)}`)
    for (const [name, value] of query) url.searchParams.append(name, value)
    const headers = new Headers(header.map(([name, value]) => [name, value]))
    if (token !== undefined) headers.set('Authorization', token)
    headers.set('CF-Connecting-IP', ip)
    const isForm = form.length > 0
    return new Request(url, {
      method: isForm && method.toUpperCase() === 'GET' ? 'POST' : method.toUpperCase(),
      headers,
      ...(isForm && { body: new URLSearchParams(form.map(([name, value]) => [name, value])) }),
    })
  } catch (error) {
    if (error instanceof CommandError) throw error
    // Not its own message, which repeats values of fields.
    throw new CommandError('that cannot be a request: its method, or a field, is not one that HTTP allows')
  }
}

function badRoute(route: string): never {
  throw new CommandError(`expected a request such as "POST /login", got ${JSON.stringify(route.slice(0, 100))}`)
}
