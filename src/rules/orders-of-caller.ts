import type { RequestCharge } from '../model/charge.ts'
import type { Blocked } from '../model/verdict.ts'
import { type Caller, claimReaderOf, NO_RESPONSE, requestOf } from '../request/caller/caller.ts'
import type { Rules } from './document.ts'
import { Rulebook, type RulebookOptions } from './rulebook.ts'
import type { Target } from './target.ts'

/** What the rules order for a caller. */
export interface OrdersOfCaller {
  /** Undefined: it is let in, as far as it is known. */
  readonly blocked: Blocked | undefined
  /** The charges under the rules, in order. */
  readonly charges: readonly RequestCharge[]
}

/**
 * What the rules order for a caller of whom something is known, or only the digest.
 * @param charges of this caller @param nowMs milliseconds since the Unix epoch
 * @throws {CallerError} if there is no such caller
 */
export async function ordersOfCaller(
  rules: Rules,
  { caller, digest }: { readonly caller: Caller; readonly digest?: string | undefined },
  charges: readonly RequestCharge[],
  options: Omit<RulebookOptions, 'readClaim'>,
  nowMs: number,
): Promise<OrdersOfCaller> {
  const known = digest === undefined ? rules : bare(rules, digest)
  const rulebook = new Rulebook(known, { ...options, readClaim: claimReaderOf(caller.claim) })
  const orders = await rulebook.ordersFor(requestOf(caller), nowMs, NO_RESPONSE)
  if (!orders) return { blocked: undefined, charges }
  const applied = 'kind' in orders ? orders : await orders.apply(charges)
  return 'kind' in applied ? { blocked: applied, charges } : { blocked: undefined, charges: applied }
}

/** Of whom only the digest is known, nothing can be read again: what names it holds, whatever it is a digest of. */
function bare(rules: Rules, digest: string): Rules {
  const named = <Entry extends Target>(entries: readonly Entry[]) =>
    entries.map((entry) => (entry.digest === digest ? { ...entry, by: undefined } : entry))
  return { ...rules, blocks: named(rules.blocks), allows: named(rules.allows), overrides: named(rules.overrides) }
}
