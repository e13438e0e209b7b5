import { randomUUID } from 'node:crypto'
import { inject } from 'vitest'
import { type PointOfPresence, startPointOfPresence } from './point-of-presence.ts'
import { PATIENT } from './site.ts'

/** The tests' Redis, with keys of its own. */
export function redisBindings(): Readonly<Record<string, unknown>> {
  return {
    UPSTASH_REDIS_REST_URL: inject('redisRestUrl'),
    UPSTASH_REDIS_REST_TOKEN: inject('redisRestToken'),
    KEY_PREFIX: randomUUID(),
    ...PATIENT,
  }
}

/** One point of presence of the production bundle, on the tests' Redis, with keys of its own. */
export function startGateway(bindings: Readonly<Record<string, unknown>>): Promise<PointOfPresence> {
  return startPointOfPresence(inject('bundle'), { ...redisBindings(), ...bindings })
}
