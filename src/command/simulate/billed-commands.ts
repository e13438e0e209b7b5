import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import type { Decision, DecisionRequest, Rule } from '../../model/charge.ts'

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
    const tiers = (usage[index] ?? []).map(({ remaining, resetMs }, at) => {
      const { limit = 0, windowMs = 0 } = rule.tiers[at] ?? {}
      return { used: limit - remaining - charged, sinceFirstMs: windowMs - resetMs }
    })
    commands += commandsOf(rule, tiers, isCharged, isCharged && written.get(rule.key) === true)
    // A refusal that counts towards a block: an entry and its time to live, or both in one.
    if (isWritten && !isCharged) commands += ALGORITHMS[rule.algorithm].isLog ? 2 : 1
  })
  return commands
}

interface UsedTier {
  /** Units, before the charge. */
  readonly used: number
  /** How long ago the first of them was admitted. */
  readonly sinceFirstMs: number
}

function commandsOf(
  { algorithm, cost }: Rule,
  tiers: readonly UsedTier[],
  isCharged: boolean,
  isRenewed: boolean,
): number {
  switch (algorithm) {
    case 'sliding-window': {
      const busy = tiers.filter(({ used }) => used >= READ_TOGETHER * cost)
      // Tiers that begin with the same entry read it together.
      const reads = new Set(busy.map(({ sinceFirstMs }) => sinceFirstMs)).size
      return 1 + reads + (isCharged ? 1 : 0) + (isRenewed ? 1 : 0)
    }
    case 'sorted-set':
      return 1 + tiers.filter(({ used }) => used > 0).length + (isCharged ? 3 : 0)
    default:
      return 1 + (isCharged ? 1 : 0)
  }
}
