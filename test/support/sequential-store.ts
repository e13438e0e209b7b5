/** The sequential specification of every store: the algorithm over plain states, decided at a given time. */
import { decide } from '../../src/core/algorithms/decide.ts'
import { WindowLog } from '../../src/core/algorithms/window-log.ts'
import type { Decision, DecisionRequest } from '../../src/core/model/charge.ts'

/** The values of all keys, with their expiry. */
export type Stored = ReadonlyMap<string, { readonly state: unknown; readonly expiresAtMs: number }>

/**
 * What was stored stays as it was, and a decision that writes nothing returns the same.
 * @param atUs microseconds since the Unix epoch
 */
export function decideIn(
  stored: Stored,
  request: DecisionRequest,
  atUs: number,
): { readonly decision: Decision; readonly after: Stored } {
  const nowMs = Math.floor(atUs / 1000)
  let after = stored
  const decision = decide(request, atUs, {
    read(key) {
      const entry = stored.get(key)
      return entry && entry.expiresAtMs >= nowMs ? copyState(entry.state) : undefined
    },
    write(key, state, ttlMs) {
      const expiresAtMs = ttlMs === undefined ? (stored.get(key)?.expiresAtMs ?? nowMs) : nowMs + ttlMs
      after = new Map(after).set(key, { state, expiresAtMs })
    },
  })
  return { decision, after }
}

/** An algorithm may change a state in place. */
function copyState(state: unknown): unknown {
  if (!(state instanceof WindowLog)) return structuredClone(state)
  return Object.assign(new WindowLog(), state, { ring: state.ring.slice() })
}

/** Describes all that decisions from `nowMs` on depend on: two states that decide alike are mostly described alike. */
export function describeStored(stored: Stored, nowMs: number): string {
  const live = [...stored].filter(([, { expiresAtMs }]) => expiresAtMs >= nowMs)
  const described = live.map(([key, { state }]) => [key, state instanceof WindowLog ? listLive(state, nowMs) : state])
  return JSON.stringify(described, (_, value) => (value instanceof Map ? [...value] : value))
}

/** Of each entry that has not left the windows, the newest first: its date, and the units from it to the newest. */
function listLive({ ring, start, end, before, keptMs, total, penalty, penaltyMs }: WindowLog, nowMs: number) {
  const live: unknown[] = penalty && penalty.untilMs > nowMs ? [penalty] : []
  live.push(Math.max(penaltyMs, nowMs))
  for (let at = end - 2; at >= start; at -= 2) {
    const dateMs = ring[at & (ring.length - 1)] as number
    if (dateMs <= nowMs - keptMs) break
    live.push(dateMs, total - (at === start ? before : (ring[(at - 1) & (ring.length - 1)] as number)))
  }
  return live
}

/** Describes all that a decision says. */
export function describeDecision({ granted, nowMs, usage }: Decision): string {
  const limits = usage.map((states) =>
    states.map(({ remaining, resetMs, retryAfterMs, penaltyMs = 0 }) => [remaining, resetMs, retryAfterMs, penaltyMs]),
  )
  return `${granted} at ${nowMs} ${JSON.stringify(limits)}`
}
