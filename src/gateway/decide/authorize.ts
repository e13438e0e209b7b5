/** Decides requests that a proxy asks about before it forwards them. */
import * as v from 'valibot'
import type { CallContext } from '../../core/runtime/call-context.ts'
import type { Config } from '../../http/config/load-config.ts'
import { markIfChanged } from '../../http/request/changed-path.ts'
import { createAddressReader } from '../../http/request/identity/address-reader.ts'
import { withWatch } from '../../http/request/rate-limit.ts'
import { createPathReader, createTargetReader, type RequestTarget } from '../../http/request/target.ts'
import { type AbortableRequest, markSynthetic, type Observer } from '../../http/response/exchange.ts'
import { createProblem, createProblemResponse, type Problem, TARGET_PROBLEMS } from '../../http/response/problem.ts'
import { createProtect } from '../../http/response/protect.ts'
import { createRefusal } from '../../http/response/refusal.ts'
import type { ApiOperation } from '../api/operation.ts'
import type { RouteHandler } from '../api/route.ts'
import { describe } from '../api/schema.ts'
import type { GatewayContext } from '../app/app.ts'

/** Carries the token of a proxy: `Authorization` is the client's own. */
export const TOKEN_FIELD = 'Sluice-Token'
export const PATH = '/_sluice/authorize'

const FORBIDDEN = createProblem('unauthorized', 403, `Missing or invalid DECIDE_TOKEN (${TOKEN_FIELD}).`)
const UNCLEAR = createProblem(
  'invalid_input',
  400,
  'X-Forwarded-Method, -Uri and -Host: expected a method, a path with its query, and a host, each once.',
)

/** Refusals that nginx passes on as they are; it takes all others for an error of the server. */
const KNOWN_TO_NGINX = [401, 403]

export const AUTHORIZE: ApiOperation = {
  method: 'GET',
  path: '/authorize',
  summary: 'Whether a request may pass, for a proxy that asks first',
  description:
    'Any method. The request to decide is in X-Forwarded-Method, -Uri, -Host and -For, or in the method and the path ' +
    'after `/authorize`; all other headers are those of its client.',
  query: v.strictObject({
    token: describe(v.optional(v.string()), `DECIDE_TOKEN, of a proxy that cannot send ${TOKEN_FIELD}.`),
    refusals: describe(v.optional(v.literal('403')), 'Refusals other than 401 are 403; Sluice-Status has the status.'),
  }),
}

/** The request about which a proxy asks. */
interface ForwardedQuestion {
  readonly method: string
  /** Path and query as the client has sent them. */
  readonly uri: string
  readonly host: string
}

/** Creates the route at which proxies ask (forward auth). What they say is believed only with the token. */
export function createAuthorize(
  isToken: (text: string) => boolean,
  { headerFormat, ipv6Prefix, literalInPaths }: Config,
  observer: Observer | undefined,
  { limiter, rulesEngine, watch, now, log }: GatewayContext,
): RouteHandler {
  const readTarget = createTargetReader(createPathReader(literalInPaths))
  // The response is not seen here: slots stay held until their time is over, and nothing is learned of the upstream.
  const unseen = { health: undefined, followResponse: undefined, isUnseen: true }
  const decider = rulesEngine ?? limiter
  const watched = watch ? withWatch(decider, watch, (decision) => watch.onDecision(decision)) : decider
  const protect = createProtect({ ...unseen, limiter: watched, headerFormat, ipv6Prefix, now, observer })

  let isWarned = false

  return async function authorize(request, _target, context) {
    const { pathname, searchParams: query } = new URL(request.url)
    if (pathname !== PATH) return undefined
    // Either may be the client's own, as some proxies pass on its query and others its headers.
    const tokens = [request.headers.get(TOKEN_FIELD) ?? '', query.getAll('token').join()]
    if (!tokens.some(isToken)) return createProblemResponse(FORBIDDEN)
    if (!isWarned && readForwarded(request) === null) {
      isWarned = true
      const message = 'the proxy sends no X-Forwarded-For, so all callers without another identity are counted as one'
      log('warn', { event: 'unknown_address', message })
    }
    return decide(request, context)
  }

  async function decide(request: Request, context: CallContext): Promise<Response> {
    const read = (name: string) => request.headers.get(`X-Forwarded-${name}`) ?? ''
    const question = { method: read('Method'), uri: read('Uri'), host: read('Host') }
    const target = findTarget(question)
    if ('code' in target) return createProblemResponse(target)
    const path = markIfChanged(target.path, question.uri)
    return protect({ request: toClientRequest(request, question), path, context }, (verdict) =>
      verdict.outcome === 'admitted'
        ? markSynthetic(new Response(null, { headers: { 'Cache-Control': 'no-store' } }))
        : createRefusal(verdict, request.headers),
    )
  }

  /** A header that is sent twice arrives as a list, which is neither a method nor a path. */
  function findTarget({ method, uri, host }: ForwardedQuestion): RequestTarget | Problem {
    if (!/^[A-Z_-]+$/.test(method) || !/^\/[!"$-~]*$/.test(uri) || !/^[\w.:[\]-]+$/.test(host)) return UNCLEAR
    const target = readTarget(`http://${host}${uri}`)
    return typeof target === 'string' ? TARGET_PROBLEMS[target] : target
  }
}

/** Asks by headers, as other proxies do, what Envoy asks by the client's method and the path after the prefix. */
export function toForwarded(request: Request): Request {
  const { host, pathname, search } = new URL(request.url)
  const headers = new Headers(request.headers)
  headers.set('X-Forwarded-Method', request.method)
  headers.set('X-Forwarded-Uri', pathname.slice(PATH.length) + search)
  headers.set('X-Forwarded-Host', host)
  return new Request(new URL(PATH, request.url), { headers, signal: request.signal })
}

export function toKnownRefusal(response: Response): Response {
  if (response.ok) return response
  const { status, body } = response
  const headers = new Headers(response.headers)
  headers.set('Sluice-Status', String(status))
  return new Response(body, { status: KNOWN_TO_NGINX.includes(status) ? status : 403, headers })
}

const readForwarded = ({ headers }: Request) => headers.get('X-Forwarded-For')
const readAddress = createAddressReader<[Request]>(1, () => null, readForwarded)

/** Makes the request of the client: its headers are those of the question, but its body stays with the proxy. */
function toClientRequest(request: Request, { method, uri, host }: ForwardedQuestion): AbortableRequest {
  const get = (name: string) => (/^host$/i.test(name) ? host : request.headers.get(name))
  return {
    method,
    url: `http://${host}${uri}`,
    headers: { get, has: (name) => get(name) !== null },
    address: readAddress(request),
    body: null,
    // Its fields are unknown, so that none of them exempts a caller.
    parsedBody: null,
    signal: request.signal,
    clone: () => ({ body: null }),
  }
}
