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
