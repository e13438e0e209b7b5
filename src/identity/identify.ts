import { callerAddress } from './address.ts'
import { normalizeAuthorization } from './authorization.ts'
import type { Source } from './source.ts'

/** What a policy's sources are read from. */
export interface Subject {
  readonly request: Request
  /** What `route` stands for: the policy's pattern that matched, or the method and canonical path. */
  readonly route: string
}

/**
 * The values that tell this caller from others, each under its kind, so that no value of one kind passes for another.
 * A caller without the value is counted by address.
 * @returns undefined for a caller without Authorization where `anonymous` is `deny`
 */
export function identify(
  sources: readonly Source[],
  subject: Subject,
  anonymous: 'ip' | 'deny',
): readonly string[] | undefined {
  const parts: string[] = []
  for (const source of sources) {
    const value = read(source, subject)
    if (value !== undefined) parts.push('name' in source ? `${source.kind}:${source.name}` : source.kind, value)
    else if (source.kind === 'token' && anonymous === 'deny') return undefined
    else parts.push('ip', callerAddress(subject.request.headers))
  }
  return parts
}

function read(source: Source, { request, route }: Subject): string | undefined {
  switch (source.kind) {
    case 'token':
      return normalizeAuthorization(request.headers.get('Authorization'))
    case 'ip':
      return callerAddress(request.headers)
    case 'route':
      return route
    case 'global':
      return ''
    case 'header':
      return request.headers.get(source.name) || undefined
    case 'query':
      return new URL(request.url).searchParams.get(source.name) || undefined
  }
}
