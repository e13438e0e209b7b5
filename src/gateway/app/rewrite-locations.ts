/** Keeps clients at the gateway after a redirect. */
import type { Config } from '../../http/config/load-config.ts'
import type { UpstreamProxy } from './proxy.ts'

const FIELDS = ['Location', 'Content-Location']

/** @returns a proxy that replaces the API's own host and base path by what the client used */
export function rewriteLocations(proxy: UpstreamProxy, { upstreamUrl }: Pick<Config, 'upstreamUrl'>): UpstreamProxy {
  // Behind a service binding, the API sees the gateway's own URL.
  if (upstreamUrl === undefined) return proxy
  return async (request, target, passage) => {
    const response = await proxy(request, target, passage)
    for (const name of FIELDS) {
      const value = response.headers.get(name)
      if (value === null) continue
      const rewritten = rewriteLocation(value, upstreamUrl, `${target.scheme}://${target.host}`, target.pathAndQuery)
      if (rewritten !== undefined) response.headers.set(name, rewritten)
    }
    return response
  }
}

/**
 * @param upstreamUrl has no trailing slash
 * @param pathAndQuery of the request, without the base path: relative references are resolved against it
 * @returns undefined for another host or a path outside the base path, and for what means the same to the client
 */
export function rewriteLocation(
  value: string,
  upstreamUrl: string,
  origin: string,
  pathAndQuery: string,
): string | undefined {
  const requested = upstreamUrl + pathAndQuery
  if (!URL.canParse(value, requested)) return undefined
  const { protocol, host, pathname, search, hash } = new URL(value, requested)
  const upstream = new URL(upstreamUrl)
  const base = upstream.pathname.replace(/\/$/, '')
  // In either scheme: an API behind a proxy of its own may not know that clients use https.
  if (!/^https?:$/.test(protocol) || host !== upstream.host || !`${pathname}/`.startsWith(`${base}/`)) return undefined
  // Never without the host: a path that begins with two slashes would lead to another one.
  const rewritten = `${origin}${pathname.slice(base.length) || '/'}${search}${hash}`
  const isSame = URL.canParse(value, origin + pathAndQuery) && new URL(value, origin + pathAndQuery).href === rewritten
  return isSame ? undefined : rewritten
}
