/** Reports whether the store answers. */
import manifest from '../../../package.json' with { type: 'json' }
import type { Engine } from '../../core/engine/engine.ts'
import type { Store } from '../../core/model/store.ts'
import type { ShardHealthReader } from './shard-health.ts'

/** An isolate pings the store at most this often. */
const PING_INTERVAL_MS = 1_000

/**
 * Answers what decides the next request, as far as is known: a store that answers in time does. `slow`: a ping took longer than a
 * decision may. `failing`: pings are answered, but decisions were not, and none is called for now. `unknown`: no ping has
 * ended yet. While it is not known, it is not taken for well.
 */
export const STORE_STATES = ['answers', 'slow', 'failing', 'unavailable', 'unknown'] as const
export type StoreState = (typeof STORE_STATES)[number]

/** Monitors read these. */
const STATUSES = {
  answers: 'ok',
  slow: 'degraded',
  failing: 'degraded',
  unavailable: 'degraded',
  unknown: 'unknown',
} as const satisfies Readonly<Record<StoreState, string>>

type Ping = { readonly reachable: boolean | null; readonly rttMs: number | null } & Partial<
  Omit<Awaited<ReturnType<ShardHealthReader>>, 'reachable' | 'rttMs'>
>

export type Health = Awaited<ReturnType<ReturnType<typeof createHealthReader>>>

/** @param timeoutMs deadline of a decision */
export function createHealthReader(
  { kind }: Pick<Store, 'kind'>,
  engine: Pick<Engine, 'circuit' | 'mayCall' | 'ping'>,
  timeoutMs: number,
  now: () => number,
  readShards?: ShardHealthReader,
) {
  let pingedAtMs = Number.NEGATIVE_INFINITY
  // Plain data, not a promise: an isolate's requests must not await each other's.
  // Null before the first ping; the time also if the store did not answer.
  let last: Ping = { reachable: null, rttMs: null }

  return async function readHealth() {
    const startedAtMs = now()
    // A clock that was set back must not keep it waiting.
    if (Math.abs(startedAtMs - pingedAtMs) >= PING_INTERVAL_MS) {
      pingedAtMs = startedAtMs
      const result = readShards
        ? await readShards()
        : await engine.ping().then(
            () => ({ reachable: true, rttMs: now() - startedAtMs }),
            () => ({ reachable: false, rttMs: null }),
          )
      // A slow ping must not replace the result of a later one.
      if (pingedAtMs === startedAtMs) last = result
    }
    const state = findState(last, engine.mayCall)
    const store = { kind, state, ...last, timeoutMs, circuit: engine.circuit }
    return { status: STATUSES[state], release: manifest.version, store }
  }

  function findState({ reachable, rttMs }: Ping, mayCall: boolean): StoreState {
    if (reachable === null) return mayCall ? 'unknown' : 'failing'
    if (!reachable) return 'unavailable'
    if (!mayCall) return 'failing'
    return (rttMs ?? 0) > timeoutMs ? 'slow' : 'answers'
  }
}

export function createHealthResponse(health: Health): Response {
  return Response.json(health, { headers: { 'Cache-Control': 'no-store' } })
}
