import { randomUUID } from 'node:crypto'
import { inject } from 'vitest'
import { type DirectGateway, startDirectGateway } from './direct-gateway.ts'
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
export function startGateway(bindings: Readonly<Record<string, unknown>>): Promise<DirectGateway> {
  return startDirectGateway({ bundle: inject('bundle'), bindings: { ...redisBindings(), ...bindings } })
}
