/** Bits of an IPv6 address that count: a site is given a /64 at least, and may use any address of it. */
const IPV6_PREFIX_GROUPS = 4

/**
 * The caller's address, with all of an IPv6 /64 as one. Only `CF-Connecting-IP` is believed: Cloudflare sets it, and
 * a client can send any `X-Forwarded-For` it likes. Without it (outside Cloudflare) all callers share one address.
 */
export function callerAddress(headers: Headers): string {
  const address = headers.get('CF-Connecting-IP')?.trim() || 'unknown'
  return address.includes(':') ? ipv6Network(address) : address
}

function ipv6Network(address: string): string {
  const url = `http://[${address}]`
  if (!URL.canParse(url)) return address
  // The URL parser writes an address in its one canonical form (RFC 5952).
  const [head = '', tail] = new URL(url).hostname.slice(1, -1).split('::')
  const before = head ? head.split(':') : []
  const after = tail ? tail.split(':') : []
  const groups =
    tail === undefined ? before : [...before, ...Array(8 - before.length - after.length).fill('0'), ...after]
  const mapped = ipv4Mapped(groups)
  return mapped ?? `${groups.slice(0, IPV6_PREFIX_GROUPS).join(':')}::/${IPV6_PREFIX_GROUPS * 16}`
}

/** `::ffff:a.b.c.d` (RFC 4291 §2.5.5.2) is the IPv4 caller a.b.c.d. */
function ipv4Mapped(groups: readonly string[]): string | undefined {
  const [high, low] = groups.slice(6).map((group) => Number.parseInt(group, 16))
  if (groups.slice(0, 6).join(':') !== '0:0:0:0:0:ffff' || high === undefined || low === undefined) return undefined
  return [high >> 8, high & 255, low >> 8, low & 255].join('.')
}
