import type { Asked, Blocked, Ordered } from '../limiter/orders.ts'
import { claimReaderOf, NO_RESPONSE, requestOf } from '../request/caller/caller.ts'
import type { CallerRule } from '../request/caller/rules-of-caller.ts'
import type { Rules } from '../rules/document.ts'
import { Rulebook, type RulebookOptions } from '../rules/rulebook.ts'
import type { Target } from '../rules/target.ts'
import { type CallerInput, callerOf } from './caller-schema.ts'

export interface OrdersForCaller {
  /** Undefined: it is let in, as far as it is known. */
  readonly blocked: Blocked | undefined
  /** What is asked in place of each rule. */
  readonly ordered: readonly Ordered[]
}

/** What the rules order for a caller. */
export async function ordersForCaller(
  rules: Rules,
  caller: CallerInput,
  asked: readonly CallerRule[],
  options: RulebookOptions,
  nowMs: number,
): Promise<OrdersForCaller> {
  const readClaim = claimReaderOf(caller.claim)
  const known = caller.digest === undefined ? rules : bare(rules, caller.digest)
  const orders = await new Rulebook(known, { ...options, readClaim }).ordersFor(
    requestOf(callerOf(caller)),
    nowMs,
    NO_RESPONSE,
  )
  const plain: readonly Asked[] = asked.map(({ policy, rule }) => ({ policy, rule }))
  if (!orders) return { blocked: undefined, ordered: plain }
  const ordered = 'kind' in orders ? orders : orders.apply(plain)
  return 'kind' in ordered ? { blocked: ordered, ordered: plain } : { blocked: undefined, ordered }
}

/** Of whom only the digest is known, nothing can be read again: what names it holds, whatever it is a digest of. */
function bare(rules: Rules, digest: string): Rules {
  const named = <Entry extends Target>(entries: readonly Entry[]) =>
    entries.map((entry) => (entry.digest === digest ? { ...entry, by: undefined } : entry))
  return { ...rules, blocks: named(rules.blocks), allows: named(rules.allows), overrides: named(rules.overrides) }
}
