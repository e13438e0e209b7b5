import type { AlgorithmName } from '../../src/limit/algorithm-table.ts'
import type { Rule } from '../../src/limit/rule.ts'
import { ruleOf } from '../support/rules.ts'
import type { Faults, Scenario } from './world.ts'

const WINDOW_MS = 3_600_000
export const NO_FAULTS: Faults = { deaths: 0, timeouts: 0, crashes: 0, duplicates: 0 }

/** @param limits of one object each */
export function rulesWith(...limits: readonly (readonly [AlgorithmName, number, Partial<Rule>?])[]): Rule[] {
  return limits.map(([algorithm, limit, overrides], index) =>
    ruleOf(algorithm, [{ limit, windowMs: WINDOW_MS }], { key: `object ${index}`, ...overrides }),
  )
}

export const TWO = rulesWith(['sliding-window', 1], ['quota', 2])
export const THREE = rulesWith(['sliding-window', 1], ['quota', 2], ['token-bucket', 2])
/** A caller that is new to the first, and a cap on such callers. */
export const NEWCOMERS = rulesWith(['sliding-window', 2], ['quota', 2], ['sliding-window', 1, { counts: 'identities' }])

/** By what is special about each. */
export const SCENARIOS: Readonly<Record<string, Scenario>> = {
  'nothing goes wrong': { deciders: 3, rules: THREE, faults: NO_FAULTS },
  'a decider dies': { deciders: 3, rules: THREE, faults: { ...NO_FAULTS, deaths: 1 } },
  'two deciders die': { deciders: 3, rules: TWO, faults: { ...NO_FAULTS, deaths: 2 } },
  'a message comes twice': { deciders: 3, rules: TWO, faults: { ...NO_FAULTS, duplicates: 1 } },
  'a decider gives up, and another dies': { deciders: 3, rules: TWO, faults: { ...NO_FAULTS, deaths: 1, timeouts: 1 } },
  'an object crashes, and a decider dies': { deciders: 3, rules: TWO, faults: { ...NO_FAULTS, deaths: 1, crashes: 1 } },
  'everything at once': { deciders: 2, rules: THREE, faults: { deaths: 1, timeouts: 1, crashes: 1, duplicates: 1 } },
  'newcomers, and all of it': {
    deciders: 2,
    rules: NEWCOMERS,
    faults: { deaths: 1, timeouts: 1, crashes: 1, duplicates: 1 },
  },
}

/** Faults of the protocol, by what an object does. Each must be found. */
export const PLANTED: Readonly<Record<string, Scenario>> = {
  'counts late': { deciders: 3, rules: TWO, faults: NO_FAULTS, bug: 'counts late' },
  'forgets what it granted': { deciders: 2, rules: TWO, faults: NO_FAULTS, bug: 'forgets what it granted' },
}
