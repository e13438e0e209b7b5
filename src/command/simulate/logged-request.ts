import type { IdentitySource } from '../../model/identity-source.ts'
import type { ReceivedRequest } from '../../request/received-request.ts'
import type { LogEntry } from './log-line.ts'

/** A request from a log, which holds no body. */
export class LoggedRequest implements ReceivedRequest {
  readonly method: string
  readonly url: string
  readonly body = null
  readonly address: string | null
  readonly headers: ReceivedRequest['headers']
  readonly #entry: LogEntry

  constructor(entry: LogEntry) {
    const { method, target, ip, token, headers } = entry
    this.#entry = entry
    this.method = method
    this.url = target.startsWith('/') ? `https://gateway.invalid${target}` : target
    this.address = ip ?? null
    const get = (name: string) => {
      if (name === 'Authorization' && token !== undefined) return token
      return headers.size === 0 ? null : (headers.get(name.toLowerCase()) ?? null)
    }
    this.headers = { get, has: (name) => get(name) !== null }
  }

  clone(): { readonly body: null } {
    return { body: null }
  }

  formatIdentity(sources: readonly IdentitySource[]): string {
    const { ip = 'unknown', token, headers } = this.#entry
    const parts = sources.map((source) => {
      if (source.kind === 'token') return token ?? ip
      if (source.kind === 'header') return headers.get(source.name) ?? ip
      return source.kind === 'ip' ? ip : source.kind
    })
    return parts.join(' + ')
  }
}

const LOGGED_KINDS = new Set<IdentitySource['kind']>(['token', 'ip', 'header', 'query', 'route', 'global'])

/** @returns true if no log has this source of an identity */
export function isUnlogged({ kind }: IdentitySource): boolean {
  return !LOGGED_KINDS.has(kind)
}
