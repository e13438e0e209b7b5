/**
 * The caller's address as seen by the farthest of this many proxies: each appends the address that it was asked from to
 * `X-Forwarded-For`, and what stands before that is only what the client says.
 * @param proxies that are trusted, from 1
 * @param peer address of the connection, which is the last proxy's
 * @returns the first address that there is, if there are fewer
 */
export function forwardedAddress(field: string | null, proxies: number, peer: string | null): string | null {
  const hops = (field ?? '')
    .split(',')
    .map((hop) => hop.trim())
    .filter(Boolean)
  return withoutPort(hops[Math.max(0, hops.length - proxies)] ?? peer)
}

/** Some proxies add the port: `192.0.2.1:443`, `[2001:db8::1]:443`. */
function withoutPort(address: string | null): string | null {
  const [, bracketed, plain] = /^(?:\[([^\]]*)\](?::\d+)?|([\d.]+):\d+)$/.exec(address ?? '') ?? []
  return bracketed ?? plain ?? address
}
