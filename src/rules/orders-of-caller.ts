import type { Asked, Blocked, Ordered } from '../engine/orders.ts'
import { type Caller, claimReaderOf, NO_RESPONSE, requestOf } from '../request/caller/caller.ts'
import type { Rules } from './document.ts'
import { Rulebook, type RulebookOptions } from './rulebook.ts'
import type { Target } from './target.ts'

/** What the rules order for a caller. */
export interface OrdersOfCaller {
  /** Undefined: it is let in, as far as it is known. */
  readonly blocked: Blocked | undefined
  /** What is asked in place of each rule. */
  readonly ordered: readonly Ordered[]
}

/**
 * What the rules order for a caller of whom something is known, or only the digest.
 * @param asked what the policies ask for it @param nowMs milliseconds since the Unix epoch
 * @throws {CallerError} if there is no such caller
 */
export async function ordersOfCaller(
  rules: Rules,
  { caller, digest }: { readonly caller: Caller; readonly digest?: string | undefined },
  asked: readonly Asked[],
  options: Omit<RulebookOptions, 'readClaim'>,
  nowMs: number,
): Promise<OrdersOfCaller> {
  const known = digest === undefined ? rules : bare(rules, digest)
  const rulebook = new Rulebook(known, { ...options, readClaim: claimReaderOf(caller.claim) })
  const orders = await rulebook.ordersFor(requestOf(caller), nowMs, NO_RESPONSE)
  const plain = asked.map(({ policy, rule }) => ({ policy, rule }))
  if (!orders) return { blocked: undefined, ordered: plain }
  const ordered = 'kind' in orders ? orders : await orders.apply(plain)
  return 'kind' in ordered ? { blocked: ordered, ordered: plain } : { blocked: undefined, ordered }
}

/** Of whom only the digest is known, nothing can be read again: what names it holds, whatever it is a digest of. */
function bare(rules: Rules, digest: string): Rules {
  const named = <Entry extends Target>(entries: readonly Entry[]) =>
    entries.map((entry) => (entry.digest === digest ? { ...entry, by: undefined } : entry))
  return { ...rules, blocks: named(rules.blocks), allows: named(rules.allows), overrides: named(rules.overrides) }
}
