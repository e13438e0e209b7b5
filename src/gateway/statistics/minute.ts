/** Counts the requests of one minute. */
import { type Period, SKETCH_CAPACITY } from '../../core/store/counters.ts'
import type { Observed } from '../../http/response/exchange.ts'
import { COUNT_NAMES, EVERYWHERE, REFUSED_CALLERS, REFUSING_RULES } from './metrics.ts'
import { findRefusedCallers, findRefusingLimits, toOutcome, toPolicyOutcome } from './outcomes.ts'
import { RECENT, RecentRefusals } from './recent.ts'
import { SpaceSaving } from './space-saving.ts'

/** An isolate counts up to twice as many callers and rules, so that those that are stored are counted well. */
const CAPACITY = 2 * SKETCH_CAPACITY

/** The counts of one isolate in a minute, or in a part of it. */
export class Minute {
  readonly startMs: number
  readonly #counts = new Map<string, number>()
  /** Refused callers, by `<policy>:<digest>`. */
  readonly refused = new SpaceSaving(CAPACITY)
  readonly #rules = new SpaceSaving(CAPACITY)
  readonly recent = new RecentRefusals()

  constructor(startMs: number) {
    this.startMs = startMs
  }

  /** @param name one of `COUNT_NAMES` */
  add(name: string, count = 1): void {
    if (count > 0) this.#counts.set(name, (this.#counts.get(name) ?? 0) + count)
  }

  /** @returns the names under which the callers that were refused are counted */
  addDecided(observed: Observed): readonly string[] {
    const { verdict, trace } = observed
    this.add(COUNT_NAMES.requests[toOutcome(verdict)])
    if (verdict.degraded !== undefined) this.add(COUNT_NAMES.degraded(verdict.degraded))
    if (verdict.outcome === 'blocked' && verdict.rule) this.#rules.see(encodeURIComponent(verdict.rule.toWellFormed()))
    const refusing = findRefusingLimits(verdict)
    for (const { policy, route = EVERYWHERE } of trace.matches) {
      // Policies without limits only give a priority.
      if (policy.limits.length === 0) continue
      this.add(COUNT_NAMES.policy(policy.name, toPolicyOutcome(verdict, policy, refusing), route))
    }
    if (refusing.length === 0) return []
    for (const { name } of refusing) this.add(COUNT_NAMES.limit(name))
    const names = findRefusedCallers(observed).map(({ policy, digest }) => `${policy}:${digest}`)
    for (const name of names) this.refused.see(name)
    return names
  }

  addStoreAnswer(ms: number): void {
    this.add(COUNT_NAMES.storeCalls)
    this.add(COUNT_NAMES.latency(ms))
    this.add(COUNT_NAMES.latencyMs, Math.round(ms))
  }

  addStoreFailure(): void {
    this.add(COUNT_NAMES.storeCalls)
    this.add(COUNT_NAMES.storeFailures)
  }

  toPeriod(): Period {
    const seen = [
      [REFUSED_CALLERS, this.refused.toSketch(SKETCH_CAPACITY)],
      [REFUSING_RULES, this.#rules.toSketch(SKETCH_CAPACITY)],
      [RECENT, this.recent.toSketch()],
    ] as const
    const sketches = new Map(seen.filter(([, { items }]) => items.length > 0))
    return { startMs: this.startMs, counts: this.#counts, sketches }
  }
}
