import { HOP_BY_HOP } from './hop-by-hop.ts'

/**
 * What a client says about the way it came, and about the URL that it asked for, cannot be checked: it is replaced, not
 * continued. Because of some of these fields, an API would serve another path than the one that policies were matched
 * on, or take the client for another one. `Proxy` becomes HTTP_PROXY in CGI (CVE-2016-5385).
 */
const CLAIMS = [
  ...['forwarded', 'forwarded-for', 'client-ip', 'true-client-ip', 'fastly-client-ip', 'x-azure-clientip'],
  ...['x-client-ip', 'x-cluster-client-ip', 'x-originating-ip', 'x-proxyuser-ip', 'x-real-ip', 'x-real-port'],
  ...['x-remote-addr', 'x-remote-ip', 'cf-worker', 'front-end-https', 'x-host', 'x-http-host-override', 'proxy'],
  ...['script-name', 'x-scheme', 'x-script-name', 'x-url-scheme'],
]

/** The field by which the API knows this gateway, if it has a secret for it. */
export const SECRET_FIELD = 'sluice-secret'

const DROPPED: ReadonlySet<string> = new Set([...HOP_BY_HOP, ...CLAIMS, SECRET_FIELD])

/**
 * Letters, digits and "-" only, as in nginx by default: CGI and what descends from it (PHP, WSGI, Rack) write
 * `X_API_KEY` and `X-API-Key` alike, so one could pass for the other.
 */
const PASSED = /^(?!x-forwarded|x-original-|x-rewrite-|x-envoy-)[a-z\d-]+$/

export const PASSED_EXPECTED =
  'header fields that go on to the API: of letters, digits and "-", and none that a proxy replaces (X-Forwarded-… and the like)'

/** Whether a field of a request goes on to the API. @param name in lower case */
export function isPassed(name: string): boolean {
  return PASSED.test(name) && !DROPPED.has(name)
}
