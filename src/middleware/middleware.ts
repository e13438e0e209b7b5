/** The parts that the middleware of all frameworks have in common. */
import { composeLimiter } from '../engine/limiter.ts'
import { retryAfter } from '../http/problem.ts'
import type { Refused } from '../model/verdict.ts'
import { createPathReader, createTargetReader } from '../request/target.ts'
import { readOptions, type SharedOptions } from './options.ts'

/**
 * Puts together what decides requests.
 * @throws {ConfigError} for a wrong option
 */
export function composeMiddleware<C>(options: SharedOptions<C>) {
  const settings = readOptions(options)
  const { limiter } = composeLimiter(settings.config, settings)
  const readTarget = createTargetReader(createPathReader(settings.literalInPaths))
  return { ...settings, limiter, readTarget }
}

/**
 * Makes a reader of callers' addresses.
 * @param readPeer reads the address of the connection
 * @param readForwarded reads `X-Forwarded-For`
 */
export function createAddressReader<C>(
  trustProxy: SharedOptions<C>['trustProxy'],
  readPeer: (context: C) => string | null,
  readForwarded: (context: C) => string | null,
): (context: C) => string | null {
  if (typeof trustProxy === 'function') return (context) => trustProxy(context) ?? null
  if (trustProxy === undefined) return readPeer
  return (context) => findAddress(readForwarded(context), trustProxy, readPeer(context))
}

/**
 * The caller's address as seen by the farthest of this many proxies: each appends the address that it was asked from to
 * `X-Forwarded-For`, and what stands before that is only what the client says.
 * @param peer address of the connection, which is the last proxy's
 * @returns the first address that there is, if there are fewer
 */
function findAddress(field: string | null, proxies: number, peer: string | null): string | null {
  const hops = (field ?? '')
    .split(',')
    .map((hop) => hop.trim())
    .filter(Boolean)
  const address = hops[Math.max(0, hops.length - proxies)] ?? peer
  // Some proxies add the port: `192.0.2.1:443`, `[2001:db8::1]:443`.
  const [, bracketed, plain] = /^(?:\[([^\]]*)\](?::\d+)?|([\d.]+):\d+)$/.exec(address ?? '') ?? []
  return bracketed ?? plain ?? address
}

type OverLimits = Extract<Refused, { kind: 'limited' | 'reserved' }>

/** The application may answer such a refusal by itself. */
export function isOverLimits(verdict: Refused): verdict is OverLimits {
  return verdict.kind === 'limited' || verdict.kind === 'reserved'
}

/** Header fields of an application's own refusal, which no cache may keep either (RFC 6585 §4). */
export function refusalFields({ retryAfterMs }: OverLimits): readonly (readonly [name: string, value: string])[] {
  return Object.entries({ ...retryAfter(retryAfterMs), 'Cache-Control': 'no-store' })
}
