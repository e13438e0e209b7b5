import type { Rule } from '../limit/rule.ts'

/** 53 random bits: an integer that JavaScript and Lua both hold exactly. */
export function randomSlot(): number {
  const [high = 0, low = 0] = crypto.getRandomValues(new Uint32Array(2))
  return (high & 0x1f_ffff) * 2 ** 32 + low
}

/** The same rule, to be charged again: a slot that was given back is never taken again. */
export function withNewSlot(rule: Rule): Rule {
  return rule.slot === undefined ? rule : { ...rule, slot: randomSlot() }
}
