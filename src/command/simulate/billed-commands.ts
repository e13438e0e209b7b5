import { ALGORITHMS } from '../../limit/algorithm-table.ts'
import type { Decision, DecisionRequest, Rule } from '../../limit/rule.ts'

/** Entries that `lua/sliding-window.lua` reads together with the newest: a tier that holds more costs a read of its own. */
const READ_TOGETHER = 8

/** What one decision did to the states. */
export interface Touched {
  /** Keys that were read. */
  readonly readKeys: readonly string[]
  /** Keys that were written, and whether each got a new time to live. */
  readonly written: ReadonlyMap<string, boolean>
}

/**
 * Commands that Upstash bills for a decision, as `test/integration/billed-commands.test.ts` counts them in Redis: the
 * EVALSHA, one TIME, and those inside of the script. For costs above 1, and for refusals that lead to a block, a few more
 * or less; where permits were leased, a few less than told here.
 */
export function billedCommands(
  { rules }: DecisionRequest,
  { usage, granted }: Decision,
  { readKeys, written }: Touched,
): number {
  let commands = 2
  rules.forEach((rule, index) => {
    if (!readKeys.includes(rule.key)) return
    const isWritten = written.has(rule.key)
    const isCharged = isWritten && granted > 0
    const charged = isCharged ? rule.cost * granted : 0
    // Before the charge.
    const used = (usage[index] ?? []).map(({ remaining }, at) => (rule.tiers[at]?.limit ?? 0) - remaining - charged)
    commands += commandsOf(rule, used, isCharged, isCharged && written.get(rule.key) === true)
    // A refusal that counts towards a block: an entry and its time to live, or both in one.
    if (isWritten && !isCharged) commands += ALGORITHMS[rule.algorithm].isLog ? 2 : 1
  })
  return commands
}

function commandsOf(
  { algorithm, cost }: Rule,
  used: readonly number[],
  isCharged: boolean,
  isRenewed: boolean,
): number {
  switch (algorithm) {
    case 'sliding-window': {
      const busy = used.filter((units) => units >= READ_TOGETHER * cost).length
      return 1 + busy + (isCharged ? 1 : 0) + (isRenewed ? 1 : 0)
    }
    case 'sorted-set':
      return 1 + used.filter((units) => units > 0).length + (isCharged ? 3 : 0)
    default:
      return 1 + (isCharged ? 1 : 0)
  }
}
