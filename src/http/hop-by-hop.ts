/** Fields about one connection only (RFC 9110 §7.6.1, RFC 9112 §9), and one that old clients send to proxies. */
const HOP_BY_HOP = [
  'Connection',
  'Keep-Alive',
  'Proxy-Authenticate',
  'Proxy-Authorization',
  'Proxy-Connection',
  'TE',
  'Trailer',
  'Transfer-Encoding',
  'Upgrade',
]

/** Removes the fields that a proxy must not pass on, and those that `Connection` names. */
export function removeHopByHop(headers: Headers): void {
  const named = headers.get('Connection')
  for (const name of HOP_BY_HOP) headers.delete(name)
  if (named === null) return
  for (const item of named.split(',')) {
    const name = item.trim()
    // What the edge says of a client is not the client's to have removed.
    if (/^(?!cf-)[!#$%&'*+.^_`|~\w-]+$/i.test(name)) headers.delete(name)
  }
}
