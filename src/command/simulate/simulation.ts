import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import type { Config } from '../../config/load-config.ts'
import { Limiter } from '../../engine/limiter.ts'
import type { RequestPolicy } from '../../model/policy.ts'
import type { TierReport, Verdict } from '../../model/verdict.ts'
import { createPathReader, createTargetReader, type TargetReader } from '../../request/target.ts'
import type { CallContext } from '../../runtime/call-context.ts'
import { Deadlines } from '../../runtime/deadlines.ts'
import type { LogEntry } from './log-entry.ts'
import { LoggedRequest } from './logged-request.ts'
import { MostRefused } from './most-refused.ts'
import { Timeline } from './timeline.ts'
import { type Isolate, VirtualDecider } from './virtual-decider.ts'
import { VirtualStore } from './virtual-store.ts'
import { Waits } from './waits.ts'

/** `rejected`: answered without counting, for its path, its caller or its cost, or by the gateway itself. */
export type Fate = 'admitted' | 'refused' | 'rejected'

export interface PolicyCount {
  /** Of its counts in the timeline. */
  readonly index: number
  readonly policy: string
  readonly mode: 'enforce' | 'shadow'
  /** To which it applied. */
  requests: number
  /** By it; in shadow mode, those that it would have. */
  refused: number
}

/** Replays requests through the policies of one configuration, by the times of the requests. */
export class Simulation {
  readonly counts: Record<Fate, number> = { admitted: 0, refused: 0, rejected: 0 }
  readonly timeline: Timeline
  readonly mostRefused = new MostRefused()
  readonly waits = new Waits()
  readonly #store = new VirtualStore()
  readonly #decider: VirtualDecider
  readonly #limiter: Limiter
  readonly #targetOf: TargetReader
  /** By their names. */
  readonly #policies: ReadonlyMap<string, Counted>
  readonly #prefixLength: number
  readonly #context: CallContext
  /** What goes on after a response. */
  #unfinished: Promise<unknown>[] = []

  /** @param isolate undefined: every request is asked for */
  constructor(config: Config, isolate?: Isolate) {
    this.#decider = new VirtualDecider(this.#store, isolate)
    this.#context = { deadlines: Deadlines.ofOne(), waitUntil: (work) => void this.#unfinished.push(work) }
    const policies = config.policies.map(simulated)
    this.#limiter = new Limiter({ ...config, policies, decider: this.#decider, health: undefined, log() {} })
    this.#targetOf = createTargetReader(createPathReader(config.literalInPaths))
    const limiting = policies.filter(({ tiers }) => tiers.length > 0)
    this.#policies = new Map(limiting.map((policy, index) => [policy.name, { policy, count: countOf(policy, index) }]))
    this.#prefixLength = config.keyPrefix.length
    this.timeline = new Timeline(limiting.length)
  }

  get policies(): readonly Readonly<PolicyCount>[] {
    return [...this.#policies.values()].map(({ count }) => count)
  }

  /** Calls of the script. */
  get calls(): number {
    return this.#store.calls
  }

  /** Commands that Upstash would have billed for them. */
  get commands(): number {
    return this.#store.commands
  }

  get isFull(): boolean {
    return this.#store.isFull
  }

  async replay(entry: LogEntry): Promise<Fate> {
    this.#store.advanceTo(entry.timeMs)
    const request = new LoggedRequest(entry)
    const verdict = await this.#verdictOf(request)
    const fate = fateOf(verdict)
    this.counts[fate]++
    if (fate !== 'rejected') this.timeline.add(this.#store.nowMs, fate)
    if (verdict && 'tiers' in verdict) this.#count(verdict, request)
    if (verdict?.kind === 'admitted' && entry.status !== undefined) {
      await verdict.failures?.of(entry.status)?.charge()
    }
    if (this.#unfinished.length > 0) await Promise.all(this.#unfinished.splice(0))
    return fate
  }

  /** @returns undefined if the gateway answers by itself */
  async #verdictOf(request: LoggedRequest): Promise<Verdict | undefined> {
    const target = this.#targetOf(request.url)
    if (typeof target === 'string') return undefined
    const { canonical } = target.path
    if (canonical === '/_sluice' || canonical.startsWith('/_sluice/')) return undefined
    return await this.#limiter.decide(request, target.path, this.#context)
  }

  #count(verdict: Extract<Verdict, { readonly tiers: readonly TierReport[] }>, request: LoggedRequest): void {
    if (verdict.kind !== 'admitted') this.waits.add(verdict.retryAfterMs)
    // Exempt requests, and those that nothing limits.
    if (verdict.tiers.length === 0) return
    const refusing = new Set<string>()
    for (const { policy, retryAfterMs } of verdict.tiers) if (retryAfterMs > 0) refusing.add(policy.name)
    // A refusal that an isolate remembers tells nothing of the other policies, which had room then.
    for (const { key } of this.#decider.lastRules) {
      const { policy, count } = this.#policies.get(this.#policyNameIn(key)) as Counted
      const isRefused = refusing.has(policy.name)
      count.requests++
      this.timeline.addToPolicy(count.index, isRefused ? 'refused' : 'admitted')
      if (!isRefused) continue
      count.refused++
      this.mostRefused.add(policy.name, key, () => request.shown(policy.by))
    }
  }

  #policyNameIn(key: string): string {
    const start = this.#prefixLength + 1
    return key.slice(start, key.indexOf(':', start))
  }
}

interface Counted {
  readonly policy: RequestPolicy
  readonly count: PolicyCount
}

/** Why a policy is left out of a simulation; undefined if it is not. */
export function leftOut({ algorithm, tiers }: RequestPolicy): string | undefined {
  const isHeld = tiers.length > 0 && ALGORITHMS[algorithm].holdsSlots
  return isHeld ? `${algorithm} counts requests in flight, and nobody knows how long these took` : undefined
}

/** What is left out limits nothing, but still gives its class. */
function simulated(policy: RequestPolicy): RequestPolicy {
  return leftOut(policy) === undefined ? policy : { ...policy, tiers: [], plans: undefined }
}

function countOf({ name, enforced }: RequestPolicy, index: number): PolicyCount {
  return { index, policy: name, mode: enforced ? 'enforce' : 'shadow', requests: 0, refused: 0 }
}

function fateOf(verdict: Verdict | undefined): Fate {
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
