/** Values that a request gives in several places, and what frameworks make of them. */
import type { Spelt } from './lenient-readings.ts'

export const VALUE = 'planted-secret.k1~x'

/** Values by place; of a form and JSON, a request has one. */
export type Given = Partial<Record<'query' | 'form' | 'json' | 'cookie' | 'route', string | undefined>>

/**
 * The order in which frameworks that take several places for one set of parameters look for one, as their sources say, and
 * as `test/system/dodging/places` sees those do that Debian has.
 */
export const READERS: Readonly<Record<string, (given: Given) => string | undefined>> = {
  'ASP.NET (Request[name])': ({ query, form, cookie }) => query ?? form ?? cookie,
  'Express 4 (req.param)': ({ query, form, json, route }) => route ?? json ?? form ?? query,
  'Flask (request.values)': ({ query, form }) => query ?? form,
  'Jetty and Tomcat (getParameter)': ({ query, form }) => query ?? form,
  'fasthttp (FormValue)': ({ query, form }) => query ?? form,
  'Mojolicious (param)': ({ query, form, route }) => route ?? query ?? form,
  'Go (FormValue)': ({ query, form }) => form ?? query,
  'PHP with its php.ini ($_REQUEST)': ({ query, form }) => form ?? query,
  'PHP without a php.ini ($_REQUEST)': ({ query, form, cookie }) => cookie ?? form ?? query,
  'Rails (params)': ({ query, form, json, route }) => route ?? json ?? form ?? query,
  'Sinatra (params)': ({ query, form, route }) => route ?? form ?? query,
  'Laravel (input)': ({ query, form, json }) => json ?? form ?? query,
}

export interface Placed {
  readonly query: string | undefined
  readonly cookie: string | undefined
  readonly route: string | undefined
  readonly inBody: string | undefined
  readonly body: 'form' | 'json' | 'multipart'
  /** The body is too long to read. */
  readonly isLong: boolean
}

const PADDING = 'x'.repeat(9_000)
/** Under both names by which the judges know a caller. */
const twice = (value: string, separator: string) =>
  ['api_key', 'my_sid'].map((name) => `${name}=${value}`).join(separator)

export function send({ query, cookie, inBody, body, isLong }: Placed): Spelt {
  const headers = { ...(cookie !== undefined && { Cookie: twice(cookie, '; ') }) }
  const inQuery = query === undefined ? 'a=1' : `a=1&${twice(query, '&')}`
  if (inBody === undefined) return { query: inQuery, headers }
  const pad = isLong ? PADDING : 'x'
  const [type, text] = {
    form: ['application/x-www-form-urlencoded', `pad=${pad}&${twice(inBody, '&')}`],
    json: ['application/json; charset=utf-8', JSON.stringify({ pad, api_key: inBody, my_sid: inBody })],
    multipart: [
      'multipart/form-data; boundary=b',
      `${['api_key', 'my_sid'].map(
        (name) => `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${inBody}\r\n`,
      )}--b--\r\n${pad}`,
    ],
  }[body] as [string, string]
  return { query: inQuery, headers: { ...headers, 'Content-Type': type }, body: text }
}

export function readGiven({ query, cookie, route, inBody, body }: Placed): Given {
  return { query, cookie, route, [body === 'json' ? 'json' : 'form']: inBody }
}
