import { createHistogram } from 'node:perf_hooks'
import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import type { Config } from '../../config/load-config.ts'
import { Limiter } from '../../engine/limiter.ts'
import type { RequestPolicy } from '../../model/policy.ts'
import type { ReportedLimit, Verdict } from '../../model/verdict.ts'
import { createPathReader, createTargetReader, type TargetReader } from '../../request/target.ts'
import type { CallContext } from '../../runtime/call-context.ts'
import { Deadlines } from '../../runtime/deadlines.ts'
import type { LogEntry } from './log-line.ts'
import { isUnlogged, LoggedRequest } from './logged-request.ts'
import { Timeline } from './timeline.ts'
import { type Isolate, VirtualDecider } from './virtual-decider.ts'
import { VirtualStore } from './virtual-store.ts'

/** `rejected`: answered without counting, for its path, its caller or its cost, or by the gateway itself. */
export type Fate = 'admitted' | 'refused' | 'rejected'

interface PolicyCount {
  readonly policy: RequestPolicy
  /** Of its counts in the timeline. */
  readonly index: number
  /** Requests to which it applied. */
  requests: number
  /** Requests that it refused; in shadow mode, that it would have. */
  refused: number
}

interface RefusedCaller {
  readonly policy: string
  /** As in the key in Redis. */
  readonly digest: string
  /** What the log has of the caller. */
  readonly shown: string
  refused: number
}

/** Replays requests through the policies of one configuration, by the times of the requests. */
export class Simulation {
  readonly counts: Record<Fate, number> = { admitted: 0, refused: 0, rejected: 0 }
  readonly timeline: Timeline
  readonly store = new VirtualStore()
  /** Until a refused request would have been admitted. */
  longestWaitMs = 0
  /** The same of all, in memory that does not grow. */
  readonly #waits = createHistogram({ figures: 3 })
  /** By their keys. */
  readonly #refusedCallers = new Map<string, RefusedCaller>()
  readonly #decider: VirtualDecider
  readonly #limiter: Limiter
  readonly #readTarget: TargetReader
  /** By their names. */
  readonly #policies: ReadonlyMap<string, PolicyCount>
  readonly #prefixLength: number
  readonly #context: CallContext
  /** Work that goes on after a response. */
  #unfinished: Promise<unknown>[] = []

  /** @param isolate undefined: every request is asked for */
  constructor(config: Config, isolate?: Isolate) {
    this.#decider = new VirtualDecider(this.store, isolate)
    this.#context = { deadlines: Deadlines.ofOne(), waitUntil: (work) => void this.#unfinished.push(work) }
    // Policies that cannot be simulated limit nothing, but still give their class.
    const policies = config.policies.map((policy) =>
      findObstacle(policy) === undefined ? policy : { ...policy, tiers: [], plans: undefined },
    )
    this.#limiter = new Limiter({ ...config, policies, engine: this.#decider, health: undefined, log() {} })
    this.#readTarget = createTargetReader(createPathReader(config.literalInPaths))
    const limiting = policies.filter(({ tiers }) => tiers.length > 0)
    this.#policies = new Map(limiting.map((policy, index) => [policy.name, { policy, index, requests: 0, refused: 0 }]))
    this.#prefixLength = config.keyPrefix.length
    this.timeline = new Timeline(limiting.length)
  }

  get policies(): readonly Readonly<PolicyCount>[] {
    return [...this.#policies.values()]
  }

  /** Milliseconds within which so many of 100 refused requests would have been admitted, within a thousandth. */
  waitPercentileMs(percent: number): number {
    return Math.min(this.longestWaitMs, this.#waits.percentile(percent))
  }

  /** The callers that were refused most. */
  topRefused(count: number): readonly RefusedCaller[] {
    return [...this.#refusedCallers.values()].toSorted((a, b) => b.refused - a.refused).slice(0, count)
  }

  async replay(entry: LogEntry): Promise<Fate> {
    this.store.advanceTo(entry.timeMs)
    const request = new LoggedRequest(entry)
    const verdict = await this.#decide(request)
    const fate = toFate(verdict)
    this.counts[fate]++
    if (fate !== 'rejected') this.timeline.add(this.store.nowMs, fate)
    if (verdict && 'tiers' in verdict) this.#count(verdict, request)
    if (verdict?.kind === 'admitted' && entry.status !== undefined) {
      await verdict.failures?.of(entry.status)?.charge()
    }
    if (this.#unfinished.length > 0) await Promise.all(this.#unfinished.splice(0))
    return fate
  }

  /** @returns undefined if the gateway answers by itself */
  async #decide(request: LoggedRequest): Promise<Verdict | undefined> {
    const target = this.#readTarget(request.url)
    if (typeof target === 'string') return undefined
    const { canonical } = target.path
    if (canonical === '/_sluice' || canonical.startsWith('/_sluice/')) return undefined
    return await this.#limiter.decide(request, target.path, this.#context)
  }

  #count(verdict: Extract<Verdict, { readonly tiers: readonly ReportedLimit[] }>, request: LoggedRequest): void {
    if (verdict.kind !== 'admitted') {
      this.longestWaitMs = Math.max(this.longestWaitMs, verdict.retryAfterMs)
      this.#waits.record(verdict.retryAfterMs)
    }
    // Exempt requests, and those that nothing limits.
    if (verdict.tiers.length === 0) return
    const refusing = new Set<string>()
    for (const { policy, retryAfterMs } of verdict.tiers) if (retryAfterMs > 0) refusing.add(policy.name)
    // A refusal that an isolate remembers tells nothing of the other policies, which had room then.
    for (const { key } of this.#decider.lastRules) {
      const count = this.#policies.get(this.#policyNameIn(key)) as PolicyCount
      const isRefused = refusing.has(count.policy.name)
      count.requests++
      this.timeline.addToPolicy(count.index, isRefused ? 'refused' : 'admitted')
      if (!isRefused) continue
      count.refused++
      this.#countRefusal(key, count.policy, request)
    }
  }

  #countRefusal(key: string, { name, by }: RequestPolicy, request: LoggedRequest): void {
    const caller = this.#refusedCallers.get(key)
    if (caller) {
      caller.refused++
      return
    }
    const digest = key.slice(key.indexOf('{') + 1, -1)
    this.#refusedCallers.set(key, { policy: name, digest, shown: request.formatIdentity(by), refused: 1 })
  }

  #policyNameIn(key: string): string {
    const start = this.#prefixLength + 1
    return key.slice(start, key.indexOf(':', start))
  }
}

function toFate(verdict: Verdict | undefined): Fate {
  switch (verdict?.kind) {
    case 'admitted':
      return 'admitted'
    case 'limited':
    case 'reserved':
      return 'refused'
    default:
      return 'rejected'
  }
}

/** Why a policy cannot be simulated; undefined if it can. */
function findObstacle({ algorithm, tiers }: RequestPolicy): string | undefined {
  const isHeld = tiers.length > 0 && ALGORITHMS[algorithm].holdsSlots
  return isHeld ? `${algorithm} counts requests in flight, and nobody knows how long these took` : undefined
}

/** Where a simulation cannot do what the Worker does. @param isolate undefined: every request is asked for */
export function findCaveats({ policies, isShedding, leases }: Config, isolate: Isolate | undefined): string[] {
  const caveats: string[] = []
  for (const policy of policies) {
    const { name, by, settleHeader, tiers } = policy
    if (tiers.length === 0) continue
    const obstacle = findObstacle(policy)
    if (obstacle !== undefined) caveats.push(`policy "${name}" is left out: ${obstacle}`)
    else if (by.some(isUnlogged))
      caveats.push(`policy "${name}" counts by what logs do not hold: all callers lack it here`)
    if (settleHeader !== undefined) caveats.push(`policy "${name}": costs that responses tell are not known here`)
  }
  if (isShedding) caveats.push('SHEDDING is left out: nobody knows how the API fared')
  if (leases && !isolate) caveats.push(`LEASES are left out: --leases off --leases ${leases} shows what they change`)
  if (isolate)
    caveats.push('calls are those of a single isolate that is answered at once: with several, there are more')
  return caveats
}
