import type { Rule } from '../limit/rule.ts'
import { randomNumber } from '../store/random-number.ts'

/** Number of slots that nobody has taken yet. */
export const randomSlot = randomNumber

/** The same rule, to be charged again: a slot that was given back is never taken again. */
export function withNewSlot(rule: Rule): Rule {
  return rule.slot === undefined ? rule : { ...rule, slot: randomSlot() }
}
