/** Decides the requests of a log in order of their time, without a clock. */
import { createHistogram } from 'node:perf_hooks'
import { holdsSlots } from '../../core/algorithms/algorithm-table.ts'
import type { LeaseSize } from '../../core/engine/leases/with-leases.ts'
import type { RequestCharge } from '../../core/model/charge.ts'
import { createReading, createUntold } from '../../core/model/cost.ts'
import { describeSource, type IdentitySource } from '../../core/model/identity-source.ts'
import type { RequestPolicy } from '../../core/model/policy.ts'
import type { Verdict } from '../../core/model/verdict.ts'
import { type CallContext, Deadlines } from '../../core/runtime/call-context.ts'
import { findRefusingLimits } from '../../gateway/statistics/outcomes.ts'
import type { Config } from '../../http/config/load-config.ts'
import { formatCostTerm } from '../../http/config/policies.ts'
import type { ReceivedRequest } from '../../http/request/received-request.ts'
import { type DecisionTrace, RequestLimiter } from '../../http/request/request-limiter.ts'
import { createSettlement } from '../../http/request/settlement.ts'
import { createPathReader, createTargetReader, type TargetReader } from '../../http/request/target.ts'
import type { LogEntry } from './log-line.ts'
import { createLoggedRequest, formatIdentity, isUnlogged } from './logged-request.ts'
import { Timeline } from './timeline.ts'
import { createVirtualEngine, VirtualStore } from './virtual-store.ts'

/** `rejected`: answered without counting, for its path, its caller or its cost, or by the gateway itself. */
export type Fate = 'admitted' | 'refused' | 'rejected'

interface RefusedCaller {
  readonly policy: string
  readonly digest: string
  /** The caller as in the log. */
  readonly caller: string
  refused: number
}

/** $0.20 for 100,000, as Upstash bills regional databases that are paid as they are used. */
const DOLLARS_PER_COMMAND = 0.2 / 100_000
const MAX_CALLERS = 10
const NO_HEADERS = new Headers()
const NO_COUNTS = { admitted: 0, refused: 0 }

/** Replays requests through the policies of one configuration, by the times of the requests. */
export class Simulation {
  readonly store = new VirtualStore()
  readonly #caveats: readonly string[]
  /** Headers and addresses that policies count by, and no line has shown. */
  readonly #unseen: Set<IdentitySource>
  /** Texts in `actual_cost` of costs that no line has had yet. */
  readonly #unseenCosts: Set<string>
  #rejected = 0
  readonly #timeline: Timeline
  #longestWaitMs = 0
  /** How long refused requests would wait, in memory that does not grow. */
  readonly #waits = createHistogram({ figures: 3 })
  readonly #callersByKey = new Map<string, RefusedCaller>()
  readonly #limiter: RequestLimiter
  readonly #readTarget: TargetReader
  /** The policies that limit, in the order of the timeline. */
  readonly #policies: readonly RequestPolicy[]
  readonly #context: CallContext
  /** Work that goes on after a response. */
  #unfinished: Promise<unknown>[] = []

  /** @param leases of the one isolate; undefined: each request makes a call to the store */
  constructor(config: Config, leases?: LeaseSize | 'off') {
    this.#context = { deadlines: Deadlines.createForOne(), waitUntil: (work) => void this.#unfinished.push(work) }
    // Policies that cannot be simulated limit nothing, but still give their priority.
    const policies = config.policies.map((policy) =>
      findObstacle(policy) === undefined ? policy : { ...policy, limits: [], plans: undefined },
    )
    const engine = createVirtualEngine(this.store, leases)
    this.#limiter = new RequestLimiter({ ...config, policies, engine, health: undefined, createSettlement, log() {} })
    this.#readTarget = createTargetReader(createPathReader(config.literalInPaths))
    this.#policies = policies.filter(({ limits }) => limits.length > 0)
    this.#timeline = new Timeline(this.#policies.length)
    this.#caveats = findCaveats(config, leases !== undefined)
    const sources = this.#policies.flatMap(({ by }) => by)
    this.#unseenCosts = new Set(this.#policies.flatMap(({ actualCost = [] }) => actualCost.map(formatCostTerm)))
    this.#unseen = new Set(sources.filter(({ kind }) => kind === 'header' || kind === 'ip'))
  }

  get caveats(): readonly string[] {
    const describe = (source: IdentitySource) => (source.kind === 'ip' ? 'an address' : describeSource(source))
    const unseen = [...this.#unseen].map((source) => `no line has ${describe(source)}, which policies count by`)
    const costs = [...this.#unseenCosts].map(
      (text) => `no line has the cost ${text}, which responses tell: --fields cost.${text}=<member> says where`,
    )
    return [...this.#caveats, ...unseen, ...costs]
  }

  summarize(showsCallers: boolean) {
    const { calls, commands } = this.store
    const [{ admitted, refused } = NO_COUNTS, ...byPolicy] = this.#timeline.totals
    const waitMs = (percent: number) =>
      refused > 0 ? Math.min(this.#longestWaitMs, this.#waits.percentile(percent)) : null
    const callers = [...this.#callersByKey.values()].toSorted((a, b) => b.refused - a.refused).slice(0, MAX_CALLERS)
    return {
      admitted,
      refused,
      rejected: this.#rejected,
      policies: this.#policies.map(({ name, mode }, at) => {
        const { admitted, refused } = byPolicy[at] ?? NO_COUNTS
        return { policy: name, mode, requests: admitted + refused, admitted, refused }
      }),
      callers: callers.map(({ policy, digest, caller, refused }) => {
        return { policy, digest, ...(showsCallers && { caller }), refused }
      }),
      uncertainty: 0,
      wait: { medianMs: waitMs(50), p95Ms: waitMs(95), longestMs: refused > 0 ? this.#longestWaitMs : null },
      calls,
      commands,
      dollars: Number((commands * DOLLARS_PER_COMMAND).toPrecision(6)),
      bucketMs: this.#timeline.widthMs,
      buckets: this.#timeline.buckets.map(({ startMs, counts: [total, ...policies] }) => {
        return { from: new Date(startMs).toISOString(), ...(total ?? NO_COUNTS), policies }
      }),
    }
  }

  async replay(entry: LogEntry): Promise<Fate> {
    this.store.advanceTo(entry.timeMs)
    for (const source of this.#unseen) {
      const isSeen = source.kind === 'header' ? entry.headers.has(source.name) : entry.ip !== undefined
      if (isSeen) this.#unseen.delete(source)
    }
    for (const text of this.#unseenCosts) if (entry.costs?.has(text)) this.#unseenCosts.delete(text)
    const trace: DecisionTrace = { matches: [], charges: [] }
    const verdict = await this.#decide(createLoggedRequest(entry), trace)
    let fate: Fate = 'rejected'
    if (verdict && 'limits' in verdict) {
      fate = verdict.outcome === 'admitted' ? 'admitted' : 'refused'
      if (verdict.outcome !== 'admitted') {
        this.#longestWaitMs = Math.max(this.#longestWaitMs, verdict.retryAfterMs)
        this.#waits.record(verdict.retryAfterMs)
      }
      this.#timeline.count(this.store.nowMs, 0, fate)
      const refusing = new Set(findRefusingLimits(verdict).map(({ policy }) => policy))
      // Exempt requests have no limits. A remembered refusal names only its policy: the others had room then.
      const charges = verdict.limits.length > 0 ? trace.charges : []
      for (const charge of charges) this.#count(charge, refusing.has(charge.policy), entry)
    }
    if (fate === 'rejected') this.#rejected++
    if (verdict?.outcome === 'admitted') {
      const { status = 200, costs } = entry
      const cost = verdict.settlement?.readHead({ status, headers: NO_HEADERS }, undefined)
      await cost?.settle((term) => {
        const count = costs?.get(formatCostTerm(term))
        return count === undefined ? createUntold('no_member') : createReading(count)
      })
    }
    if (this.#unfinished.length > 0) await Promise.all(this.#unfinished.splice(0))
    return fate
  }

  async #decide(request: ReceivedRequest, trace: DecisionTrace): Promise<Verdict | undefined> {
    const target = this.#readTarget(request.url)
    if (typeof target === 'string') return undefined
    if (/^\/_sluice(?:\/|$)/.test(target.path.canonical)) return undefined
    return await this.#limiter.decide({ request, path: target.path, context: this.#context }, { trace })
  }

  #count({ key, digest, policy }: RequestCharge, isRefused: boolean, entry: LogEntry): void {
    const index = 1 + this.#policies.indexOf(policy)
    this.#timeline.count(this.store.nowMs, index, isRefused ? 'refused' : 'admitted')
    if (!isRefused) return
    const known = this.#callersByKey.get(key)
    const caller = known ?? { policy: policy.name, digest, caller: formatIdentity(entry, policy.by), refused: 0 }
    caller.refused++
    if (!known) this.#callersByKey.set(key, caller)
  }
}

/** @returns the reason why a policy cannot be simulated; undefined if it can */
function findObstacle(policy: RequestPolicy): string | undefined {
  const isHeld = policy.limits.length > 0 && holdsSlots(policy)
  return isHeld ? `${policy.algorithm} counts requests in flight, and nobody knows how long these took` : undefined
}

function findCaveats({ policies, isShedding, leases }: Config, isIsolate: boolean): string[] {
  const caveats: string[] = []
  for (const policy of policies) {
    const { name, by, limits } = policy
    if (limits.length === 0) continue
    const obstacle = findObstacle(policy)
    if (obstacle !== undefined) caveats.push(`policy "${name}" is left out: ${obstacle}`)
    else if (by.some(isUnlogged))
      caveats.push(`policy "${name}" counts by what logs do not hold: all callers lack it here`)
  }
  if (isShedding) caveats.push('SHEDDING is left out: nobody knows how the API fared')
  if (leases && !isIsolate) caveats.push(`LEASES are left out: --leases off --leases ${leases} shows what they change`)
  if (isIsolate)
    caveats.push('calls are those of a single isolate that is answered at once: with several, there are more')
  return caveats
}
