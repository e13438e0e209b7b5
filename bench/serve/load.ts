/** What the clients of `sluice serve` send, and what they tell of it. */

export const POLICY = 'user'
/** Nobody reaches them. */
export const LIMITS = '100000/10s'
export const CALLERS = 1_000
/** Each waits for its answer before it asks again: a connection of HTTP, or a stream of the one connection of gRPC. */
export const LANES = 64
export const WARM_UP_S = 1
export const SECONDS = 2

export interface ServeLoad {
  /** Those of the warm-up, too. */
  readonly decisions: number
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
}
