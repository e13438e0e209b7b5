/** Charges and corrects by what responses tell: loaded where a policy does. */
import { isChargedLater } from '../../core/algorithms/decide.ts'
import { applyActualCosts } from '../../core/engine/apply-actual-costs.ts'
import type { Engine, EngineDecision } from '../../core/engine/engine.ts'
import type { RequestCharge } from '../../core/model/charge.ts'
import type { CostTerm, RequestPolicy, ResponseHead } from '../../core/model/policy.ts'
import type { ReportedLimit, Settlement } from '../../core/model/verdict.ts'
import type { CallContext } from '../../core/runtime/call-context.ts'
import { mustAwaitResponse } from './charge-builder.ts'

interface Decided {
  readonly engine: Pick<Engine, 'record'>
  readonly decision: EngineDecision
  readonly context: CallContext
}

export type CreateSettlement = typeof createSettlement

/**
 * @param limits the limits when the request was admitted
 * @returns undefined if no policy charges by the response
 */
export function createSettlement(
  charges: readonly RequestCharge[],
  limits: readonly ReportedLimit[],
  { engine, decision, context }: Decided,
): Settlement | undefined {
  const open = charges.filter(({ policy }) => mustAwaitResponse(policy))
  if (open.length === 0) return undefined
  const listTerms = (some: readonly RequestCharge[]) => some.flatMap(({ policy }) => policy.actualCost ?? [])
  const settlement: Settlement = {
    terms: listTerms(open),
    readHead(head, argument) {
      const counted = open.filter(
        ({ policy }) => !isChargedLater(policy) || (head && countsHead(policy, head, argument)),
      )
      if (counted.length === 0) return undefined
      return {
        terms: listTerms(counted),
        limits: limits.map((limit) => {
          const charge = counted.find(({ policy }) => policy === limit.policy && !policy.actualCost)
          return charge ? { ...limit, remaining: Math.max(0, limit.remaining - charge.cost) } : limit
        }),
        settle(read) {
          const readTerm = (term: CostTerm) =>
            read(term) ?? (term.kind === 'bytes:request' ? settlement.requestBytes : undefined)
          const differences = counted.map((charge) => {
            const actual = readActualCost(charge, readTerm) ?? charge.cost
            return { charge, units: isChargedLater(charge) ? actual : actual - charge.cost }
          })
          return applyActualCosts(engine, differences, decision, context)
        },
      }
    },
  }
  return settlement
}

function countsHead({ counts, failures }: RequestPolicy, head: ResponseHead, context: unknown): boolean {
  if (counts === 'responses') return true
  const isFailure = typeof failures === 'function' ? failures(head, context as never) : failures.includes(head.status)
  return isFailure === (counts === 'failures')
}

/** @returns undefined if the response tells nothing */
function readActualCost({ policy }: RequestCharge, read: (term: CostTerm) => number | undefined): number | undefined {
  const counts = (policy.actualCost ?? []).map((term) => (read(term) ?? Number.NaN) * term.weight)
  const known = counts.filter((count) => count >= 0)
  return known.length > 0 ? Math.ceil(known.reduce((sum, count) => sum + count, 0)) : undefined
}
