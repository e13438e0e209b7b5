import { version } from '../../package.json'
import type { Circuit } from '../engine/circuit-breaker.ts'
import type { Engine } from '../engine/engine.ts'

/** An isolate asks the store at most this often, however often it is asked for its health. */
const PING_INTERVAL_MS = 1_000

/** How a gateway is. */
export interface Health {
  readonly status: 'ok' | 'degraded'
  readonly version: string
  readonly store: {
    readonly kind: string
    /** Null until it has been asked. */
    readonly reachable: boolean | null
    /** How long it took to answer, in milliseconds; null if it did not. */
    readonly rttMs: number | null
    readonly circuit: Circuit
  }
}

/**
 * Makes what finds it out.
 * @param now milliseconds since the Unix epoch
 */
export function createHealthReader(
  engine: Pick<Engine, 'storeKind' | 'ping' | 'circuit'>,
  now: () => number,
): () => Promise<Health> {
  let askedAt = Number.NEGATIVE_INFINITY
  // Plain data, not a promise: an isolate's requests must not await each other's.
  let last: { readonly reachable: boolean | null; readonly rttMs: number | null } = { reachable: null, rttMs: null }

  return async function readHealth() {
    const startedAt = now()
    if (startedAt - askedAt >= PING_INTERVAL_MS) {
      askedAt = startedAt
      const result = await engine.ping().then(
        () => ({ reachable: true, rttMs: now() - startedAt }),
        () => ({ reachable: false, rttMs: null }),
      )
      // A slow ping must not hide what a later one has found.
      if (askedAt === startedAt) last = result
    }
    const { storeKind: kind, circuit } = engine
    const status = last.reachable === false || circuit !== 'closed' ? 'degraded' : 'ok'
    return { status, version, store: { kind, ...last, circuit } }
  }
}

/** The answer to `GET /_sluice/health`: 200 and JSON, whatever the store's state. */
export function healthResponse(health: Health): Response {
  return Response.json(health, { headers: { 'Cache-Control': 'no-store' } })
}
