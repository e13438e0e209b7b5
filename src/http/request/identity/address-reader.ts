/** Finds the client's address behind proxies that are trusted. */

/** A number of proxies that add to `X-Forwarded-For`, or a function to the address; undefined: none is believed. */
export type TrustProxy<Args extends unknown[]> = number | ((...args: Args) => string | undefined) | undefined

/** @param readPeer reads the address of the connection @param readForwarded reads `X-Forwarded-For` */
export function createAddressReader<Args extends unknown[]>(
  trustProxy: TrustProxy<Args>,
  readPeer: (...args: Args) => string | null,
  readForwarded: (...args: Args) => string | null,
): (...args: Args) => string | null {
  if (typeof trustProxy === 'function') return (...args) => trustProxy(...args) ?? null
  if (trustProxy === undefined) return readPeer
  return (...args) => findAddress(readForwarded(...args), trustProxy, readPeer(...args))
}

/**
 * Finds the address that the farthest of this many proxies saw, or the first one if there are fewer. Each appends the
 * address of its peer to `X-Forwarded-For`; anything before that is only a claim of the client.
 */
function findAddress(header: string | null, proxies: number, peer: string | null): string | null {
  const hops = (header ?? '')
    .split(',')
    .map((hop) => hop.trim())
    .filter(Boolean)
  const address = hops[Math.max(0, hops.length - proxies)] ?? peer
  // Some proxies add the port: `192.0.2.1:443`, `[2001:db8::1]:443`.
  const [, bracketed, plain] = /^(?:\[([^\]]*)\](?::\d+)?|([\d.]+):\d+)$/.exec(address ?? '') ?? []
  return bracketed ?? plain ?? address
}
