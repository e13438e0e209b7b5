import type { Differs } from '../engine/rules-engine.ts'
import type { Observed } from '../http/observer.ts'
import type { RequestPolicy } from '../model/policy.ts'
import { type Period, SKETCH_CAPACITY } from '../store/counters.ts'
import { COUNT_NAMES, EVERYWHERE, REFUSED_CALLERS } from './count-names.ts'
import { bucketOf, LATENCY_BOUNDS_MS } from './latency.ts'
import { outcomeOf, policyOutcomeOf, refusingTiers } from './outcome-of.ts'
import type { Degradation, Outcome, PolicyOutcome } from './outcomes.ts'
import { refusedCallers } from './refused-callers.ts'
import { SpaceSaving } from './space-saving.ts'

/** Callers that an isolate counts: more than are kept, so that those who are kept are counted well. */
const CALLERS = 2 * SKETCH_CAPACITY

/** What one isolate counts in a minute, or in a part of it. */
export class Minute {
  /** Milliseconds since the Unix epoch. */
  readonly startMs: number
  readonly #requests = new Map<Outcome, number>()
  readonly #degraded = new Map<Degradation, number>()
  #upstream5xx = 0
  /** By policy, pattern and outcome. */
  readonly #policies = new Map<RequestPolicy, Map<string, Map<PolicyOutcome, number>>>()
  readonly #tiers = new Map<string, number>()
  readonly #shadow = new Map<Differs, number>()
  readonly #latencies = new Float64Array(LATENCY_BOUNDS_MS.length + 1)
  #latencyMs = 0
  #storeFailures = 0
  #refused: SpaceSaving | undefined

  constructor(startMs: number) {
    this.startMs = startMs
  }

  /** @returns the names under which the callers that were refused are counted */
  countDecided(observed: Observed): readonly string[] {
    const { verdict, trace } = observed
    count(this.#requests, outcomeOf(verdict))
    if (verdict.degraded !== undefined) count(this.#degraded, verdict.degraded)
    const refusing = refusingTiers(verdict)
    for (const { policy, route = EVERYWHERE } of trace.matches) {
      // Others only give a priority.
      if (policy.tiers.length === 0) continue
      count(this.#outcomesOf(policy, route), policyOutcomeOf(verdict, policy, refusing))
    }
    if (refusing.length === 0) return []
    for (const { name } of refusing) count(this.#tiers, name)
    const names = refusedCallers(observed).map(({ policy, digest }) => `${policy}:${digest}`)
    if (names.length > 0) this.#refused ??= new SpaceSaving(CALLERS)
    for (const name of names) this.#refused?.see(name)
    return names
  }

  /** Those of the names that have no label yet. */
  unlabelled(names: readonly string[]): readonly string[] {
    return names.filter((name) => !this.#refused?.hasLabel(name))
  }

  label(names: readonly string[], label: string): void {
    for (const name of names) this.#refused?.label(name, label)
  }

  countUndecided(outcome: Outcome): void {
    count(this.#requests, outcome)
  }

  countShadow(differs: Differs): void {
    count(this.#shadow, differs)
  }

  countUpstream5xx(): void {
    this.#upstream5xx++
  }

  countStoreAnswer(ms: number): void {
    const bucket = bucketOf(ms)
    this.#latencies[bucket] = (this.#latencies[bucket] as number) + 1
    this.#latencyMs += Math.max(0, Math.round(ms))
  }

  countStoreFailure(): void {
    this.#storeFailures++
  }

  /** @param others what is counted elsewhere */
  toPeriod(others: ReadonlyMap<string, number>): Period {
    const counts = new Map<string, number>()
    const add = (name: string, number: number) => {
      if (number > 0) counts.set(name, number)
    }
    for (const [outcome, number] of this.#requests) add(COUNT_NAMES.requests[outcome], number)
    for (const [how, number] of this.#degraded) add(COUNT_NAMES.degraded(how), number)
    add(COUNT_NAMES.upstream5xx, this.#upstream5xx)
    for (const [{ name }, routes] of this.#policies) {
      for (const [route, outcomes] of routes) {
        for (const [outcome, number] of outcomes) {
          const full = COUNT_NAMES.policy(name, outcome, route)
          // Where rules have changed, there may be two policies of one name.
          add(full, number + (counts.get(full) ?? 0))
        }
      }
    }
    for (const [differs, number] of this.#shadow) add(COUNT_NAMES.shadow(differs), number)
    for (const [tier, number] of this.#tiers) add(COUNT_NAMES.tier(tier), number)
    const answers = this.#latencies.reduce((sum, number) => sum + number, 0)
    add(COUNT_NAMES.storeCalls, answers + this.#storeFailures)
    add(COUNT_NAMES.storeFailures, this.#storeFailures)
    this.#latencies.forEach((number, bucket) => {
      add(COUNT_NAMES.latency(bucket), number)
    })
    add(COUNT_NAMES.latencyMs, this.#latencyMs)
    for (const [name, number] of others) add(name, number)
    const sketches = new Map(this.#refused && [[REFUSED_CALLERS, this.#refused.sketch(SKETCH_CAPACITY)]])
    return { startMs: this.startMs, counts, sketches }
  }

  #outcomesOf(policy: RequestPolicy, route: string): Map<PolicyOutcome, number> {
    let routes = this.#policies.get(policy)
    if (!routes) {
      routes = new Map()
      this.#policies.set(policy, routes)
    }
    let outcomes = routes.get(route)
    if (!outcomes) {
      outcomes = new Map()
      routes.set(route, outcomes)
    }
    return outcomes
  }
}

function count<Name>(numbers: Map<Name, number>, name: Name): void {
  numbers.set(name, (numbers.get(name) ?? 0) + 1)
}
