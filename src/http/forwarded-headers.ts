/**
 * What a client claims about its address, its user, the way it came and the URL that it asked for cannot be checked: it
 * is replaced, not continued. Because of some of these headers, an API would serve another path than the one that
 * policies were matched on, skip checks of its own (CVE-2025-29927), or take the client for another one. `Proxy`
 * becomes HTTP_PROXY in CGI (CVE-2016-5385). Proxies make up names by the same few patterns, so they are told by
 * prefix and kind. Clients of their own accord send `X-HTTP-Method…` and `X-Middleware-Prefetch`.
 */
const CLAIM = new RegExp(
  [
    '^(?:x-)?(?:forwarded|original-|rewrite-|envoy-|proxy|http-(?!method)|middleware-(?!prefetch$)|invoke-|matched-path|accel-|sendfile-|(?:url-)?scheme$|script-name|wl-|consumer-(?:custom|group|id|user))',
    '^(?:x-host|cf-worker|front-end-https$)',
    '(?:^|-)(?:request|override)-ur[il]$',
    '(?:^|-|client|real|remote|socket|source|user)ip(?:v?[46])?$',
    '(?:^|-)(?:client|ip|peer|source)-?(?:addr(?:ess)?|host|port)$',
    '^(?:x-)?(?:real|remote|webauth|authenticated|auth-request|userinfo|ssl)(?:-|$)',
    '(?:^|-)(?:auth|logon|sso)-?user(?:name)?$',
    '-(?:authenticated|client-principal|iap|mtls|oidc)(?:-|$)',
    '(?:^|-)client-?(?:cert|dn|ssl|tls|verify)',
  ].join('|'),
)

/** The header by which the API knows this gateway, if it has a secret for it. */
export const SECRET_FIELD = 'sluice-secret'

/**
 * Letters, digits and "-" only, as in nginx by default: CGI and what descends from it (PHP, WSGI, Rack) write
 * `X_API_KEY` and `X-API-Key` alike, so one could pass for the other.
 */
const FORM = /^[a-z\d-]+$/

export const PASSED_EXPECTED =
  'header fields that go on to the API: of letters, digits and "-", and none that a proxy replaces (X-Forwarded-… and the like)'

/** @param name in lower case */
export type IsPassed = (name: string) => boolean

/** Whether a header of a request can be forwarded at all, and does not stand for what the gateway itself says. */
export const canPass: IsPassed = (name) => FORM.test(name) && !HOP_BY_HOP.has(name) && name !== SECRET_FIELD

/**
 * Makes the test for the headers of a request that go on to the API.
 * @param claims that are forwarded all the same, in lower case
 */
export function createPassedTest(claims: readonly string[]): IsPassed {
  return (name) => canPass(name) && (name === 'cf-connecting-ip' || claims.includes(name) || !CLAIM.test(name))
}

/** The runtime writes its own of these, or none, into what it sends, whatever it is given. */
const OF_THE_RUNTIME = ['connection', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade']
const OF_RESPONSES = ['proxy-authenticate', 'proxy-connection']
const OF_REQUESTS = ['http2-settings', 'proxy-authorization']

/** Fields about one connection only (RFC 9110 §7.6.1, RFC 9112 §9, RFC 7540 §3.2.1), and one that old clients send to proxies. */
export const HOP_BY_HOP: ReadonlySet<string> = new Set([...OF_THE_RUNTIME, ...OF_RESPONSES, ...OF_REQUESTS])

/** What most say. It names nothing but a field of the runtime's, and to take it apart takes longer than to delete one. */
const NAMES_NOTHING = /^(?:keep-alive|close)$/i

/** More than any client or proxy needs: a longer field is not read. */
const MAX_CHARACTERS = 500

/**
 * Whether `Connection` names a field of the request that is not about the connection. A proxy must remove such a field
 * (RFC 9110 §7.6.1): the API would then see another caller, or another cost, than was counted here. A field that is too
 * long to read may name one.
 */
export function isConnectionStray(headers: Pick<Headers, 'get' | 'has'>): boolean {
  const connection = headers.get('Connection')
  if (connection === null) return false
  if (connection.length > MAX_CHARACTERS) return true
  return namedBy(connection).some((name) => !HOP_BY_HOP.has(name) && headers.has(name))
}

/** Removes from a response what a proxy must not pass on and the runtime would, fields that `Connection` names too. */
export function removeHopByHop(headers: Headers): void {
  const connection = headers.get('connection')
  // Whether or not they are there: to find out from the runtime which are takes longer.
  for (const name of OF_RESPONSES) headers.delete(name)
  if (connection === null) return
  for (const name of namedBy(connection)) headers.delete(name)
}

function namedBy(connection: string): readonly string[] {
  if (NAMES_NOTHING.test(connection)) return []
  const names = connection.split(',').map((name) => name.trim().toLowerCase())
  return names.filter((name) => /^[!#$%&'*+.^_`|~\w-]+$/.test(name))
}
