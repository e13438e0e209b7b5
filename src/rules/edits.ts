/** Changes of a document. Each returns a new one, without what is over by then. */
import { type Allow, type Block, isOver, type Override, type Rules } from './document.ts'
import { nameOfTarget, type Target } from './target.ts'

/** In place of another block of the same target. */
export function withBlock(rules: Rules, block: Block, nowMs: number): Rules {
  return current({ ...rules, blocks: [...without(rules.blocks, block), block] }, nowMs)
}

export function withoutBlock(rules: Rules, target: Target, nowMs: number): Rules {
  return current({ ...rules, blocks: without(rules.blocks, target) }, nowMs)
}

/** In place of another allow of the same target. */
export function withAllow(rules: Rules, allow: Allow, nowMs: number): Rules {
  return current({ ...rules, allows: [...without(rules.allows, allow), allow] }, nowMs)
}

export function withoutAllow(rules: Rules, target: Target, nowMs: number): Rules {
  return current({ ...rules, allows: without(rules.allows, target) }, nowMs)
}

/** In place of all other overrides of the same target. */
export function withOverride(rules: Rules, override: Override, nowMs: number): Rules {
  return current({ ...rules, overrides: [...without(rules.overrides, override), override] }, nowMs)
}

export function withoutOverride(rules: Rules, target: Target, nowMs: number): Rules {
  return current({ ...rules, overrides: without(rules.overrides, target) }, nowMs)
}

/**
 * @param policies in place of POLICIES; undefined: POLICIES again
 * @param isShadow whether they are only to decide beside those in force; else a shadow of them ends
 */
export function withPolicies(rules: Rules, policies: Rules['policies'], isShadow: boolean, nowMs: number): Rules {
  const { shadow: _, policies: inForce, ...others } = rules
  const next = isShadow ? { policies: inForce, shadow: policies } : { policies }
  const set = Object.fromEntries(Object.entries(next).filter(([, list]) => list !== undefined))
  return current({ ...others, ...set }, nowMs)
}

function without<Entry extends Target>(entries: readonly Entry[], target: Target): readonly Entry[] {
  const name = nameOfTarget(target)
  return entries.filter((entry) => nameOfTarget(entry) !== name)
}

function current(rules: Rules, nowMs: number): Rules {
  const lasts = (entry: { until?: string | undefined }) => !isOver(entry, nowMs)
  return {
    ...rules,
    blocks: rules.blocks.filter(lasts),
    allows: rules.allows.filter(lasts),
    overrides: rules.overrides.filter(lasts),
  }
}
