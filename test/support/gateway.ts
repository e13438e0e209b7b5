import { randomUUID } from 'node:crypto'
import { inject } from 'vitest'
import { type PointOfPresence, startPointOfPresence } from './point-of-presence.ts'

/** One point of presence of the production bundle, on the tests' Redis, with keys of its own. */
export function startGateway(bindings: Readonly<Record<string, unknown>>): Promise<PointOfPresence> {
  return startPointOfPresence(inject('bundle'), {
    UPSTASH_REDIS_REST_URL: inject('redisRestUrl'),
    UPSTASH_REDIS_REST_TOKEN: inject('redisRestToken'),
    KEY_PREFIX: randomUUID(),
    // A slow machine is no reason to count on one's own.
    STORE_TIMEOUT_MS: 30_000,
    ON_STORE_ERROR: 'closed',
    ...bindings,
  })
}
