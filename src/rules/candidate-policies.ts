import type { Limiter, MatchedRules } from '../engine/limiter.ts'
import type { CandidateCounts, Comparison, WatchCandidates } from '../engine/rules-engine.ts'
import type { Verdict } from '../model/verdict.ts'
import type { ReceivedRequest } from '../request/received-request.ts'
import type { RequestPath } from '../request/target.ts'
import type { CallContext } from '../runtime/call-context.ts'
import type { Log } from '../runtime/log.ts'

const NONE: CandidateCounts = { requests: 0, refusedByBoth: 0, refusedByShadowOnly: 0, refusedByForceOnly: 0 }
const LOG_INTERVAL_MS = 60_000

export interface CandidateTools {
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  readonly log: Log
  /** Left out: what differs is only logged. */
  readonly watch: WatchCandidates | undefined
}

/** Policies that decide beside those in force, under keys of their own. They refuse nothing: what differs is counted. */
export class CandidatePolicies {
  readonly #limiter: Limiter
  readonly #version: number
  readonly #now: () => number
  readonly #log: Log
  readonly #watch: WatchCandidates | undefined
  #counts = NONE
  #untold = NONE
  #toldMs: number

  /** @param version of the rules that brought the policies */
  constructor(limiter: Limiter, version: number, { now, log, watch }: CandidateTools) {
    this.#limiter = limiter
    this.#version = version
    this.#now = now
    this.#log = log
    this.#watch = watch
    this.#toldMs = now()
  }

  /** Since this isolate has read them. */
  get counts(): CandidateCounts {
    return this.#counts
  }

  /** @param inForce decides by the policies in force: it is not asked later for the shadow, but for reading the request */
  async decideBeside(
    inForce: () => Promise<Verdict>,
    request: ReceivedRequest,
    path: RequestPath,
    context: CallContext,
    rules: MatchedRules | undefined,
  ): Promise<Verdict> {
    // Before the request is passed on, whose body can then no longer be read.
    const charges = await this.#limiter.findCharges(request, path, context, { rules })
    const beside = 'kind' in charges ? Promise.resolve(charges) : this.#limiter.charge(charges, context)
    // Should the policies in force fail, nobody else handles it.
    beside.catch(() => {})
    const verdict = await inForce()
    context.waitUntil(beside.then((shadow) => this.#count(verdict, shadow, context)))
    return verdict
  }

  #count(verdict: Verdict, shadow: Verdict, context: CallContext): void {
    // Without the store, both decide by what one isolate knows.
    if (verdict.degraded !== undefined || shadow.degraded !== undefined) return
    const differs = compareRefusals(verdict.kind !== 'admitted', shadow.kind !== 'admitted')
    this.#watch?.(differs, context)
    const one: CandidateCounts = {
      requests: 1,
      refusedByBoth: Number(differs === 'both'),
      refusedByShadowOnly: Number(differs === 'shadowOnly'),
      refusedByForceOnly: Number(differs === 'forceOnly'),
    }
    this.#counts = sum(this.#counts, one)
    this.#untold = sum(this.#untold, one)
    const nowMs = this.#now()
    if (nowMs - this.#toldMs < LOG_INTERVAL_MS) return
    this.#log('info', { event: 'shadow_policies', version: this.#version, ...this.#untold })
    this.#untold = NONE
    this.#toldMs = nowMs
  }
}

function compareRefusals(isRefused: boolean, isRefusedBeside: boolean): Comparison {
  if (isRefused) return isRefusedBeside ? 'both' : 'forceOnly'
  return isRefusedBeside ? 'shadowOnly' : 'neither'
}

function sum(one: CandidateCounts, other: CandidateCounts): CandidateCounts {
  return {
    requests: one.requests + other.requests,
    refusedByBoth: one.refusedByBoth + other.refusedByBoth,
    refusedByShadowOnly: one.refusedByShadowOnly + other.refusedByShadowOnly,
    refusedByForceOnly: one.refusedByForceOnly + other.refusedByForceOnly,
  }
}
