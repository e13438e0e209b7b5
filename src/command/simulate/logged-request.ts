/** Makes a request of a line of a log. */
import type { IdentitySource } from '../../core/model/identity-source.ts'
import type { ReceivedRequest } from '../../http/request/received-request.ts'
import type { LogEntry } from './log-line.ts'

/** A request from a log, which holds no body. */
export function createLoggedRequest({ method, target, ip, token, headers }: LogEntry): ReceivedRequest {
  const get = (name: string) => {
    if (name === 'Authorization' && token !== undefined) return token
    return headers.size === 0 ? null : (headers.get(name.toLowerCase()) ?? null)
  }
  return {
    method,
    url: target.startsWith('/') ? `https://gateway.invalid${target}` : target,
    headers: { get, has: (name) => get(name) !== null },
    address: ip ?? null,
    body: null,
    clone: () => ({ body: null }),
  }
}

export function formatIdentity({ ip = 'unknown', token, headers }: LogEntry, sources: readonly IdentitySource[]) {
  const parts = sources.map((source) => {
    if (source.kind === 'token') return token ?? ip
    if (source.kind === 'header') return headers.get(source.name) ?? ip
    return source.kind === 'ip' ? ip : source.kind
  })
  return parts.join(' + ')
}

const LOGGED_KINDS = new Set<IdentitySource['kind']>(['token', 'ip', 'header', 'query', 'route', 'global'])

/** @returns true if no log has this source of an identity */
export function isUnlogged({ kind }: IdentitySource): boolean {
  return !LOGGED_KINDS.has(kind)
}
