import type { Site } from './site.ts'

/** How long, and how hard, each scenario runs. */
export interface Length {
  readonly name: 'short' | 'long'
  readonly ratePerS: number
  /** Time that the API takes: with it and the rate comes the number of requests in flight. */
  readonly upstreamDelayMs: number
  /** UPSTREAM_TIMEOUT_MS. */
  readonly upstreamTimeoutMs: number
  /** When a slot of the policy `held` frees itself. */
  readonly heldDeadlineMs: number
  /** Requests that must be in flight at once at some moment of each fault of the store. */
  readonly inFlight: number
  /** Load before the fault. */
  readonly beforeMs: number
  /** Load while it lasts, where the scenario does not say otherwise. */
  readonly duringMs: number
  /** Load after the store is shared again. */
  readonly afterMs: number
  /** Requests sent at once by scenarios that send a crowd. */
  readonly crowd: number
}

export const SHORT: Length = {
  name: 'short',
  ratePerS: 120,
  upstreamDelayMs: 50,
  upstreamTimeoutMs: 2_000,
  heldDeadlineMs: 1_000,
  inFlight: 4,
  beforeMs: 200,
  duringMs: 400,
  afterMs: 200,
  crowd: 12,
}

export const LONG: Length = {
  name: 'long',
  ratePerS: 250,
  upstreamDelayMs: 1_500,
  upstreamTimeoutMs: 10_000,
  heldDeadlineMs: 3_000,
  inFlight: 200,
  beforeMs: 1_500,
  duringMs: 3_000,
  afterMs: 1_500,
  crowd: 240,
}

export interface Scenario {
  readonly fault: string
  readonly promised: string
  run(site: Site, length: Length): Promise<Outcome>
}

export interface Outcome {
  readonly observed: string
  readonly requests: number
  /** Requests that were answered with a 5xx which no policy asked for, or not at all. */
  readonly errors: number
  /** What was seen and not promised, a line each; empty if all was as promised. */
  readonly differences: readonly string[]
}
