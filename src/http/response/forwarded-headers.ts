/** Replaces the header fields by which a client could claim to be somebody else. */
import { TextLru } from '../../core/runtime/lru.ts'

/**
 * Claims of a client about its address, its user, its route and the requested URL cannot be checked: they are replaced,
 * not continued. Because of some of these headers, an upstream would serve another path than the one that policies
 * matched, skip checks of its own (CVE-2025-29927), or take the client for another one. `Proxy` becomes HTTP_PROXY in CGI
 * (CVE-2016-5385). Proxies form names by the same few words, so the patterns go by words, and by the prefixes of products
 * that log users in. No list can be complete.
 */
const CLAIM = new RegExp(
  [
    // Proxies, and frameworks that rewrite.
    'forwarded|(?:^|-)(?:original(?:ly)?|rewrit(?:e|ten)|claims?|proxied)(?:-|$)',
    '^(?:x-)?(?:envoy-|proxy|http-(?!method)|middleware-(?!prefetch$)|invoke-|matched-path|now-route|accel-|sendfile-|wl-)',
    '^(?:x-)?(?:arr|waws|appservice|iisnode|nginx|appengine|apigateway|akamai|l5d)-|^x-amzn-(?:request|lambda)-context$',
    '^(?:x-)?(?:host|host-override|disguised-host|was-default-hostname)$(?<!^host$)|^(?:cf-worker|front-end-https)$',
    '^(?:fastly-(?:ff|client|ssl)|cloudfront-(?:viewer|is)-|x-vercel-ip-)',
    // URLs and paths, also as CGI names them.
    '(?:^|-)(?:base|destination|document|http|override|request|unencoded)-?(?:ur[il]|path)$',
    '^(?:x-)?(?:(?:url-)?scheme$|script-(?:file)?name|(?:orig-)?path-(?:info|translated)|document-root|query-string|server-(?:addr|name|port)$|auth-type|gateway-interface|(?:context|ingress|replaced|servlet)-path$)',
    // Addresses.
    '(?:^|-|client|real|remote|socket|source|user)ip(?:v?[46])?$',
    '(?:^|-)(?:client|external|ip|peer|real|remote|source|viewer)-?(?:addr(?:ess)?|host|port)$',
    // Users, but for those that clients of a database or an API name, and storages keep.
    '(?<!^as|^api|^helicone|-runas|-switch|-select|-trino|-presto|-clickhouse|-hasura)-user(?!-?agent|-project|-token)',
    '^user-?(?:id|name|e?mail|info|roles?|groups?|claims?)?$|(?:^|-)impersonat(?:ed?|or)(?:-|$)',
    '^(?:x-)?(?:(?:current|idp|jwt|ldap|logged-?in|login|oauth2?|sso|verified)-)*(?:e?mail(?:-address)?|groups?|identity|login|principal|roles?|sub|subject|uid)(?:-(?:id|name|e?mail))?$',
    '^(?:x-)?(?:idp|jwt|ldap|sso)-|^x-(?:current|logged-?in|verified)-(?!at$|with$)',
    '^(?:x-)?(?:real|remote|webauth|authenticated|auth-request|userinfo|ssl)(?:-|$)',
    '(?:^|-)(?:auth|logon|sso)-?user(?:name)?$|^x-auth-(?:groups|roles|subject)$',
    '^(?:x-)?(?:authentik|cas|eppn|mellon|oidc|saml|shib|tailscale|vouch|webseal)(?:-|$)|^(?:iv|oam|sm)-|^x-ms-token-',
    '^x-(?:token-subject|jwt-assertion|anonymous-consumer|credential-identifier|consumer-(?:custom|group|id))',
    '-(?:authenticated|client-principal|iap|mtls|oidc)(?:-|$)',
    '(?:^|-)client-?(?:cert|dn|ssl|tls|verify)|(?:^|-)(?:tls-client|(?:issuer|subject)-?dn)(?:-|$)',
  ].join('|'),
)

/** Storages keep every header that a client names so. */
const METADATA = /^x-(?:account|amz|container|goog|ms|object)-meta-/

export const SECRET_FIELD = 'sluice-secret'

/** CGI and its descendants (PHP, WSGI, Rack) spell `X_API_KEY` and `X-API-Key` identically: one could be the other. */
const FORM = /^[a-z\d-]+$/

export const PASSED_EXPECTED =
  'header fields that go on to the API: of letters, digits and "-", and none that a proxy replaces (X-Forwarded-… and the like)'

/** @param name in lower case */
export type IsPassed = (name: string) => boolean

/** Headers that can be forwarded at all, and that the gateway does not set itself. */
export const canPass: IsPassed = (name) => !HOP_BY_HOP.has(name) && name !== SECRET_FIELD && FORM.test(name)

/** Tests for a claim that cannot be checked. */
export function isClaim(name: string): boolean {
  return !METADATA.test(name) && CLAIM.test(name)
}

/**
 * Fields of nearly every request: those that are no claims, and those that are by the pattern. To compile it for them
 * would take a twentieth of what the first request of an isolate takes.
 */
export const COMMON = splitNames(
  'accept accept-encoding accept-language authorization cache-control cf-connecting-ip cf-ipcountry cf-ray cf-visitor ' +
    'content-length content-type cookie host origin pragma priority referer sec-ch-ua sec-ch-ua-mobile ' +
    'sec-ch-ua-platform sec-fetch-dest sec-fetch-mode sec-fetch-site upgrade-insecure-requests user-agent',
)
export const COMMON_CLAIMS = splitNames('sec-fetch-user x-forwarded-for x-forwarded-proto x-real-ip')

function splitNames(names: string): ReadonlySet<string> {
  return new Set(names.split(' '))
}

/** Creates the test for headers to forward. @param claims those forwarded although they are claims, in lower case */
export function createPassedTest(claims: readonly string[]): IsPassed {
  // The pattern grows, and clients send the same names with each request.
  const known = new TextLru<boolean>()
  const judge: IsPassed = (name) =>
    canPass(name) && (claims.includes(name) || !(COMMON_CLAIMS.has(name) || isClaim(name)))
  return function isPassed(name) {
    if (COMMON.has(name)) return true
    const before = known.get(name)
    if (before !== undefined) return before
    const now = judge(name)
    known.set(name, now)
    return now
  }
}

const OF_RESPONSES = ['proxy-authenticate', 'proxy-connection']

/**
 * RFC 9110 §7.6.1, RFC 9112 §9, RFC 7540 §3.2.1, and one header that old clients send to proxies. The runtime sends its
 * own values of the first ones, or none.
 */
const HOP_BY_HOP: ReadonlySet<string> = new Set([
  ...['connection', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade'],
  ...['http2-settings', 'proxy-authorization', ...OF_RESPONSES],
])

/** Most values name only a header of the runtime, and parsing them takes longer than this. */
const NAMES_NOTHING = /^(?:keep-alive|close)$/i

/** More than any client or proxy needs: a longer value is not parsed. */
const MAX_CHARACTERS = 500

/**
 * True if `Connection` names an end-to-end header of the request. A proxy must remove such a header (RFC 9110 §7.6.1): the
 * upstream would then see another caller, or another cost, than was counted here. A value that is too long may name one.
 */
export function isConnectionStray(headers: Pick<Headers, 'get' | 'has'>): boolean {
  const connection = headers.get('Connection')
  if (connection === null) return false
  if (connection.length > MAX_CHARACTERS) return true
  return parseConnection(connection).some((name) => !HOP_BY_HOP.has(name) && headers.has(name))
}

/** Removes response headers that a proxy must not forward and the runtime would, including those that `Connection` names. */
export function removeHopByHop(headers: Headers): void {
  const connection = headers.get('connection')
  // Asking the runtime which of them are present would take longer.
  for (const name of OF_RESPONSES) headers.delete(name)
  if (connection === null) return
  for (const name of parseConnection(connection)) headers.delete(name)
}

function parseConnection(connection: string): readonly string[] {
  if (NAMES_NOTHING.test(connection)) return []
  const names = connection.split(',').map((name) => name.trim().toLowerCase())
  return names.filter((name) => /^[!#$%&'*+.^_`|~\w-]+$/.test(name))
}
