import type { Site } from './site.ts'

/** A time with load: it lasts until both have come to pass. */
export interface Phase {
  readonly ms: number
  /** Requests sent in it and answered. */
  readonly requests: number
}

/** How long, and how hard, each scenario runs. */
export interface Length {
  readonly name: 'short' | 'long'
  /** Whether promised times are checked, which needs a machine that is not busy. */
  readonly isTimed: boolean
  /**
   * Whether the store may miss its deadline on a busy machine though it is well. Then nothing is judged that only holds
   * if it does not.
   */
  readonly isHasty: boolean
  /** Points of presence. */
  readonly points: number
  readonly storeTimeoutMs: number
  readonly ratePerS: number
  /** Requests in flight beyond which none is sent, so that a busy machine is given fewer. */
  readonly maxInFlight: number
  /** Time that the API takes: with it and the rate comes the number of requests in flight. */
  readonly upstreamDelayMs: number
  /** UPSTREAM_TIMEOUT_MS. */
  readonly upstreamTimeoutMs: number
  /** Requests that must be in flight at once at some moment of each fault of the store. */
  readonly inFlight: number
  /** Before the fault. */
  readonly before: Phase
  /** While it lasts, where the scenario does not say otherwise. */
  readonly during: Phase
  /** After the store is shared again. */
  readonly after: Phase
  /** Requests sent at once by scenarios that send a crowd. */
  readonly crowd: number
}

/** Judged by what happened, and in which order: no deadline of it is one that a busy machine could miss. */
export const SHORT: Length = {
  name: 'short',
  isTimed: false,
  isHasty: false,
  // What several isolates do together, two do; each more costs as much as a third of the requests.
  points: 2,
  storeTimeoutMs: 30_000,
  ratePerS: 100,
  maxInFlight: 16,
  upstreamDelayMs: 5,
  upstreamTimeoutMs: 10_000,
  inFlight: 1,
  before: { ms: 0, requests: 11 },
  during: { ms: 0, requests: 33 },
  after: { ms: 0, requests: 11 },
  crowd: 12,
}

/** For faults that make the store miss its deadline, which is then Sluice's default. */
const OF_TIME = { isHasty: true, storeTimeoutMs: 500 } as const
export const SHORT_OF_TIME: Length = { ...SHORT, ...OF_TIME }

export const LONG: Length = {
  name: 'long',
  isTimed: true,
  isHasty: false,
  points: 4,
  storeTimeoutMs: 5_000,
  ratePerS: 250,
  maxInFlight: Number.POSITIVE_INFINITY,
  upstreamDelayMs: 1_500,
  upstreamTimeoutMs: 10_000,
  inFlight: 200,
  before: { ms: 1_500, requests: 1 },
  during: { ms: 3_000, requests: 1 },
  after: { ms: 1_500, requests: 1 },
  crowd: 240,
}
export const LONG_OF_TIME: Length = { ...LONG, ...OF_TIME }

export interface Scenario {
  readonly fault: string
  readonly promised: string
  /** The fault makes the store miss its deadline: the scenario runs with `isHasty`. */
  readonly isOfTime?: boolean
  /** Takes the same way through Sluice as another scenario: `npm test` leaves it to `npm run test:faults`. */
  readonly isLikeAnother?: boolean
  run(site: Site, length: Length): Promise<Outcome>
}

export interface Outcome {
  readonly observed: string
  readonly requests: number
  /** Requests that were answered with a 5xx which no policy asked for, or not at all. */
  readonly errors: number
  /** Each difference from what is promised, a line each; empty if there is none. */
  readonly differences: readonly string[]
}
