/** Reports whether the store answers. */
import manifest from '../../../package.json' with { type: 'json' }
import type { Engine } from '../../core/engine/engine.ts'
import type { Store } from '../../core/model/store.ts'
import type { ShardHealthReader } from './shard-health.ts'

/** An isolate pings the store at most this often. */
const PING_INTERVAL_MS = 1_000

type Ping = { readonly reachable: boolean | null; readonly rttMs: number | null } & Partial<
  Omit<Awaited<ReturnType<ShardHealthReader>>, 'reachable' | 'rttMs'>
>

export type Health = Awaited<ReturnType<ReturnType<typeof createHealthReader>>>

export function createHealthReader(
  store: Pick<Store, 'kind' | 'ping'>,
  engine: Pick<Engine, 'circuit'>,
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
        : await store.ping().then(
            () => ({ reachable: true, rttMs: now() - startedAtMs }),
            () => ({ reachable: false, rttMs: null }),
          )
      // A slow ping must not replace the result of a later one.
      if (pingedAtMs === startedAtMs) last = result
    }
    const { circuit } = engine
    const status = last.reachable === false || circuit !== 'closed' ? ('degraded' as const) : ('ok' as const)
    return { status, release: manifest.version, store: { kind: store.kind, ...last, circuit } }
  }
}

export function createHealthResponse(health: Health): Response {
  return Response.json(health, { headers: { 'Cache-Control': 'no-store' } })
}
