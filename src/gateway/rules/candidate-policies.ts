import type { Verdict } from '../../core/model/verdict.ts'
import type { CallContext } from '../../core/runtime/call-context.ts'
import type { Log } from '../../core/runtime/log.ts'
import type { Exchange } from '../../http/request/received-request.ts'
import type { MatchedRules, RequestLimiter } from '../../http/request/request-limiter.ts'
import { type Comparison, toCandidateCounts, type WatchCandidates } from '../statistics/candidate-counts.ts'

const NO_COUNTS = { neither: 0, both: 0, candidateOnly: 0, activeOnly: 0 }
const LOG_INTERVAL_MS = 60_000

export interface CandidateTools {
  readonly now: () => number
  readonly log: Log
  readonly watchCandidates: WatchCandidates | undefined
}

export type CandidatePolicies = ReturnType<typeof createCandidatePolicies>

/** Policies that are evaluated for comparison, under keys of their own. They refuse nothing. */
export function createCandidatePolicies(
  limiter: RequestLimiter,
  version: number,
  { now, log, watchCandidates }: CandidateTools,
) {
  const counts = { ...NO_COUNTS }
  let unlogged = { ...NO_COUNTS }
  let loggedAtMs = now()

  function count(active: Verdict, candidate: Verdict, context: CallContext): void {
    // Without the store, both decide by what one isolate knows.
    if (active.degraded !== undefined || candidate.degraded !== undefined) return
    const comparison = compareRefusals(active.outcome !== 'admitted', candidate.outcome !== 'admitted')
    watchCandidates?.(comparison, context)
    counts[comparison]++
    unlogged[comparison]++
    const nowMs = now()
    if (nowMs - loggedAtMs < LOG_INTERVAL_MS) return
    log('info', { event: 'candidate_policies', version, ...toCandidateCounts(unlogged) })
    unlogged = { ...NO_COUNTS }
    loggedAtMs = nowMs
  }

  return {
    /** Since this isolate has read the policies. */
    readCounts: () => toCandidateCounts(counts),
    /** @param decideActive decides by the active policies, which wait until the candidates have read the request */
    async compare(
      decideActive: () => Promise<Verdict>,
      exchange: Exchange,
      rules: MatchedRules | undefined,
    ): Promise<Verdict> {
      const { context } = exchange
      // Before the request is passed on, whose body can then no longer be read.
      const charges = await limiter.findCharges(exchange, { rules })
      const candidate = 'outcome' in charges ? Promise.resolve(charges) : limiter.charge(charges, context)
      // If the active policies fail, nothing else handles its failure.
      candidate.catch(() => {})
      const verdict = await decideActive()
      context.waitUntil(candidate.then((other) => count(verdict, other, context)))
      return verdict
    },
  }
}

function compareRefusals(isRefused: boolean, isRefusedByCandidate: boolean): Comparison {
  if (isRefused) return isRefusedByCandidate ? 'both' : 'activeOnly'
  return isRefusedByCandidate ? 'candidateOnly' : 'neither'
}
