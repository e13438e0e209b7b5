import type { Rule } from '../model/charge.ts'
import { randomSlot } from '../runtime/random.ts'

/** The same rule, to be charged again: a slot that was given back is never taken again. */
export function withNewSlot(rule: Rule): Rule {
  return rule.slot === undefined ? rule : { ...rule, slot: randomSlot() }
}
