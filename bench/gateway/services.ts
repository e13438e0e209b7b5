import type { Child } from '../processes/child.ts'

export interface Services {
  readonly upstream: Child
  /** Before Redis. */
  readonly front: Child
  readonly token: string
}

/** The variables by which every compared gateway finds its API and its Redis. */
export function serviceBindings({ upstream, front, token }: Services): Readonly<Record<string, string>> {
  return { UPSTREAM_URL: upstream.url, UPSTASH_REDIS_REST_URL: front.url, UPSTASH_REDIS_REST_TOKEN: token }
}
