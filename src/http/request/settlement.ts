/** Charges and corrects by what responses tell, or leave untold: loaded where a policy does. */
import { isChargedLater } from '../../core/algorithms/decide.ts'
import { applyActualCosts } from '../../core/engine/apply-actual-costs.ts'
import type { Engine, EngineDecision } from '../../core/engine/engine.ts'
import type { StageWatch } from '../../core/engine/stages/stage.ts'
import type { RequestCharge } from '../../core/model/charge.ts'
import {
  type CostReading,
  createReading,
  isMeasure,
  type ReadCost,
  sumCosts,
  type Untold,
} from '../../core/model/cost.ts'
import type { RequestPolicy, ResponseHead } from '../../core/model/policy.ts'
import type { ReportedLimit, Settlement } from '../../core/model/verdict.ts'
import type { CallContext } from '../../core/runtime/call-context.ts'
import type { Log } from '../../core/runtime/log.ts'
import { mustAwaitResponse } from './charge-builder.ts'

interface Decided {
  readonly engine: Pick<Engine, 'record'>
  readonly decision: EngineDecision
  readonly context: CallContext
  readonly log: Log
  readonly watch?: Pick<StageWatch, 'onUntold'> | undefined
}

export type CreateSettlement = typeof createSettlement

/**
 * @param limits the limits when the request was admitted
 * @returns undefined if no policy charges by the response
 */
export function createSettlement(
  charges: readonly RequestCharge[],
  limits: readonly ReportedLimit[],
  { engine, decision, context, log, watch }: Decided,
): Settlement | undefined {
  const open = charges.filter(({ policy }) => mustAwaitResponse(policy))
  if (open.length === 0) return undefined
  const listTerms = (some: readonly RequestCharge[]) =>
    some.flatMap(({ policy: { actualCost = [], untold } }) =>
      typeof untold === 'object' ? [...actualCost, untold] : actualCost,
    )
  const terms = listTerms(open)
  const settlement: Settlement = {
    terms,
    isAborted: open.every(({ policy }) => policy.onDisconnect === 'abort'),
    prepare(headers, method) {
      if (terms.some(({ kind }) => kind === 'json')) askReadable(headers, method)
    },
    readHead(head, argument, mayHaveRun = false) {
      const counted = open.filter(({ policy }) => {
        if (!isChargedLater(policy)) return true
        return head
          ? countsHead(policy, head, argument)
          : mayHaveRun && policy.untold !== undefined && policy.counts !== 'failures'
      })
      if (counted.length === 0) return undefined
      const charged = new Map(counted.map((charge) => [charge, isChargedLater(charge) ? 0 : charge.cost]))
      const update = (
        read: ReadCost,
        count: (charge: RequestCharge, reading: CostReading, read: ReadCost) => number,
      ) => {
        const readTerm: ReadCost = (term) => {
          const reading = read(term)
          const isCounted = term.kind === 'bytes:request' && reading.kind === 'told'
          return isCounted ? createReading(reading.count + (settlement.requestBytes ?? 0)) : reading
        }
        const differences = counted.map((charge) => {
          const { actualCost } = charge.policy
          const units = actualCost ? count(charge, sumCosts(actualCost, readTerm), readTerm) : charge.cost
          const difference = units - (charged.get(charge) ?? 0)
          charged.set(charge, units)
          return { charge, units: difference }
        })
        return applyActualCosts(engine, differences, decision, context)
      }
      const countActual = (charge: RequestCharge, reading: CostReading, readTerm: ReadCost) => {
        if (reading.kind === 'told') return reading.count
        const { name: policy, untold } = charge.policy
        const reason = head ? reading.reason : 'no_response'
        log('warn', { event: 'cost_untold', policy, reason })
        watch?.onUntold?.(policy, reason)
        return Math.max(reading.count, countUntold(untold ?? charge.cost, readTerm, charge.cost))
      }
      return {
        terms: listTerms(counted),
        limits: limits.map((limit) => {
          const charge = counted.find(({ policy }) => policy === limit.policy && !policy.actualCost)
          return charge ? { ...limit, remaining: Math.max(0, limit.remaining - charge.cost) } : limit
        }),
        // What is measured only grows; what is told may still change.
        advance: (read) =>
          update(
            (term) => (isMeasure(term) ? read(term) : createReading(0)),
            (charge, { count }) => Math.max(count, charged.get(charge) ?? 0),
          ),
        settle: (read) => update(read, countActual),
      }
    },
  }
  return settlement
}

/** @param estimate what stands where not even a measure is known */
function countUntold(untold: Untold, read: ReadCost, estimate: number): number {
  if (typeof untold === 'number') return untold
  const { kind, count } = read(untold)
  return kind === 'told' ? Math.ceil(count * untold.weight) : estimate
}

function countsHead({ counts, failures }: RequestPolicy, head: ResponseHead, context: unknown): boolean {
  if (counts === 'responses') return true
  const isFailure = typeof failures === 'function' ? failures(head, context as never) : failures.includes(head.status)
  return isFailure === (counts === 'failures')
}

/**
 * Asks the API for an answer whose cost can be read: a whole one, in UTF-8, not encoded. Conditions that guard a change
 * (`If-Match`, and all of what is no GET) stay: what they prevent is an error.
 */
function askReadable(headers: Headers, method: string): void {
  headers.set('Accept-Encoding', 'identity')
  for (const name of ['Range', 'If-Range', 'Accept-Charset']) headers.delete(name)
  if (method === 'GET' || method === 'HEAD') {
    for (const name of ['If-None-Match', 'If-Modified-Since']) headers.delete(name)
  }
  const accept = headers.get('Accept')
  if (accept && /charset/i.test(accept))
    headers.set('Accept', accept.replace(/;\s*charset\s*=\s*(?:"[^"]*"|[^;,]*)/gi, ''))
}
