import type { Site } from './site.ts'

/** How long, and how hard, each scenario runs. */
export interface Length {
  readonly name: 'short' | 'long'
  readonly ratePerS: number
  /** Time that the API takes: with it and the rate comes the number of requests in flight. */
  readonly upstreamDelayMs: number
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
  beforeMs: 200,
  duringMs: 400,
  afterMs: 200,
  crowd: 12,
}

export const LONG: Length = {
  name: 'long',
  ratePerS: 400,
  upstreamDelayMs: 800,
  beforeMs: 1_500,
  duringMs: 4_000,
  afterMs: 2_000,
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
  /** Requests answered with a 5xx, or not at all, due ones included. */
  readonly errors: number
  /** What was seen and not promised, a line each; empty if all was as promised. */
  readonly differences: readonly string[]
}
