/** Reads a parameter in all parts where some framework looks for it: what they say must agree. */
import type { Reading } from '../../../core/model/identity-source.ts'
import type { ReceivedRequest } from '../received-request.ts'
import { hasPlainBody, readForm, readFormInJson, readJson, readParsed, readTypedJson } from './body.ts'
import { readCookie } from './cookie.ts'
import { AMBIGUOUS, NONE, readParameter, readQueryParameter } from './reading.ts'

type RequestPart = 'query' | 'form' | 'json' | 'cookie' | 'route'
type SourcePart = Exclude<RequestPart, 'route'>

export interface PartInput {
  readonly request: ReceivedRequest
  readonly route: string
  /** The canonical path, if `route` is a pattern with parameters that matched it. */
  readonly path?: string | undefined
  /** The API may take all parts for one set of parameters. */
  readonly mergesParameters?: boolean | undefined
}

/**
 * The parts that some frameworks take for one set of parameters, in orders that differ: ASP.NET (`Request`), Express
 * (`param`), Flask (`values`), Go (`FormValue`), Laravel (`input`), Mojolicious (`param`), PHP (`$_REQUEST`, without a
 * php.ini with cookies), Rails and Sinatra (`params`, with those of the path), servlets (`getParameter`).
 */
const READERS: Readonly<Record<RequestPart, (input: PartInput, name: string) => Reading | Promise<Reading>>> = {
  query: ({ request }, name) => readQueryParameter(request.url, name),
  form: ({ request }, name) => readForm(request, name),
  json: ({ request }, name) => readTypedJson(request, [name]),
  cookie: ({ request }, name) => readCookie(request.headers.get('Cookie'), name),
  route: readRouteParameter,
}
const PARTS = Object.keys(READERS) as RequestPart[]

/** The parts that are compared even if each parameter has one of its own. */
const COMPARED: Readonly<Record<SourcePart, readonly RequestPart[]>> = {
  query: ['query'],
  form: ['query', 'form', 'json'],
  json: ['query', 'form', 'json'],
  cookie: ['cookie'],
}

/**
 * Reads a parameter in its part.
 * @param path of a JSON member; else the name alone
 * @returns ambiguous if another part that some API prefers may say something else
 */
export async function readPart(part: SourcePart, path: readonly string[], input: PartInput): Promise<Reading> {
  const [name = ''] = path
  const { request, mergesParameters } = input
  const isBody = part === 'form' || part === 'json'
  if (isBody && request.parsedBody !== undefined) return readParsed(await request.parsedBody, path, part)
  const own = await (part === 'json' ? readJson(request, path) : READERS[part](input, name))
  const compared = mergesParameters ? PARTS : COMPARED[part]
  // Any body that cannot be read would get a session out of its limits.
  const isBodySkipped = mergesParameters && part === 'cookie' && own.kind === 'value' && !(await hasPlainBody(request))
  for (const other of compared) {
    if (other === part || (isBodySkipped && (other === 'form' || other === 'json'))) continue
    const isPolyglot = part === 'json' && other === 'form'
    const said = await (isPolyglot ? readFormInJson(request, name) : READERS[other](input, name))
    const isSame = own.kind === 'value' && said.kind === 'value' && own.value === said.value
    if (said.kind !== 'none' && !isSame) return AMBIGUOUS
  }
  return own
}

/** Reads the segment that the pattern names so. */
function readRouteParameter({ route, path }: PartInput, name: string): Reading {
  if (path === undefined) return NONE
  const segments = path.split('/')
  const names = route.slice(route.indexOf('/')).split('/')
  const parameters = names.map((segment, at) => {
    const value = segments[at]?.replace(/[+&;]/g, encodeURIComponent) ?? ''
    return segment.startsWith(':') ? `${segment.slice(1)}=${value}` : ''
  })
  return readParameter(parameters.join('&'), name)
}
