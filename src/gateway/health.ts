import { version } from '../../package.json'
import type { Decider } from '../decide/decider.ts'

/** An isolate asks the store at most this often, however often it is asked for its health. */
const PING_INTERVAL_MS = 1_000

/**
 * Makes the handler of `GET /_sluice/health`: 200 and JSON, whatever the store's state.
 * @param now milliseconds since the Unix epoch
 */
export function createHealth(
  decider: Pick<Decider, 'storeKind' | 'ping' | 'circuit'>,
  now: () => number,
): () => Promise<Response> {
  let askedAt = Number.NEGATIVE_INFINITY
  // Plain data, not a promise: an isolate's requests must not await each other's.
  let last: { readonly reachable: boolean | null; readonly rttMs: number | null } = { reachable: null, rttMs: null }

  return async function health() {
    const startedAt = now()
    if (startedAt - askedAt >= PING_INTERVAL_MS) {
      askedAt = startedAt
      const result = await decider.ping().then(
        () => ({ reachable: true, rttMs: now() - startedAt }),
        () => ({ reachable: false, rttMs: null }),
      )
      // A slow ping must not hide what a later one has found.
      if (askedAt === startedAt) last = result
    }
    const { storeKind: kind, circuit } = decider
    const status = last.reachable === false || circuit !== 'closed' ? 'degraded' : 'ok'
    return Response.json(
      { status, version, store: { kind, ...last, circuit } },
      { headers: { 'Cache-Control': 'no-store' } },
    )
  }
}
