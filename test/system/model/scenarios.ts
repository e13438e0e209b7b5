import type { StoreCharge } from '../../../src/core/model/charge.ts'
import type { AlgorithmName } from '../../../src/core/model/limits.ts'
import { createCharge } from '../../support/charges.ts'
import type { Faults, Scenario } from './world.ts'

const WINDOW_MS = 3_600_000
const NO_FAULTS: Faults = { deaths: 0, timeouts: 0, crashes: 0, duplicates: 0 }
const EVERY_FAULT: Faults = { deaths: 1, timeouts: 1, crashes: 1, duplicates: 1 }

/** @param limits of one object each */
function rulesWith(...limits: readonly (readonly [AlgorithmName, number, Partial<StoreCharge>?])[]): StoreCharge[] {
  return limits.map(([algorithm, limit, overrides], index) =>
    createCharge(algorithm, [{ limit, windowMs: WINDOW_MS }], { key: `object ${index}`, ...overrides }),
  )
}

const TWO = rulesWith(['sliding-window', 1], ['quota', 2])
const THREE = rulesWith(['sliding-window', 1], ['quota', 2], ['token-bucket', 2])
/** A caller that is new to the first, and a cap on such callers. */
const NEW_IDENTITIES = rulesWith(
  ['sliding-window', 2],
  ['quota', 2],
  ['sliding-window', 1, { counts: 'new-identities' }],
)

/** What may go wrong, once in a run. Messages may always be late, and overtake each other. */
const SINGLE_FAULTS: Readonly<Record<string, Faults>> = {
  'nothing goes wrong': NO_FAULTS,
  'an object crashes': { ...NO_FAULTS, crashes: 1 },
  'a message comes twice': { ...NO_FAULTS, duplicates: 1 },
  'a decider dies': { ...NO_FAULTS, deaths: 1 },
  'a decider gives up': { ...NO_FAULTS, timeouts: 1 },
}

function withEachFault(
  deciders: number,
  charges: readonly StoreCharge[],
  suffix = '',
  isRequestedInTime = false,
): Record<string, Scenario> {
  return Object.fromEntries(
    Object.entries(SINGLE_FAULTS).map(([name, faults]) => {
      return [
        `${deciders} deciders, ${charges.length} objects${suffix}: ${name}`,
        { deciders, charges, faults, isRequestedInTime },
      ]
    }),
  )
}

export const LONG: Readonly<Record<string, Scenario>> = {
  ...withEachFault(3, THREE, ', queried in time', true),
  ...withEachFault(3, TWO),
  ...withEachFault(2, THREE),
  ...withEachFault(2, NEW_IDENTITIES, ', new identities'),
  '2 deciders, 2 objects: all of it': { deciders: 2, charges: TWO, faults: EVERY_FAULT },
  '3 deciders, 2 objects: all of it': { deciders: 3, charges: TWO, faults: EVERY_FAULT },
}

/** What can be explored in a second or two. */
export const SHORT: Readonly<Record<string, Scenario>> = Object.fromEntries(
  ['3 deciders, 3 objects, queried in time: an object crashes', '2 deciders, 2 objects: all of it'].map((name) => [
    name,
    LONG[name] as Scenario,
  ]),
)

/** Small enough to be explored without any run left out. */
export const SMALL: Readonly<Record<string, Scenario>> = {
  ...withEachFault(2, TWO),
  '3 deciders, 2 objects: nothing goes wrong': { deciders: 3, charges: TWO, faults: NO_FAULTS },
}

/** Faults of the protocol, by what an object does. Each must be found. */
export const PLANTED: Readonly<Record<string, Scenario>> = {
  'counts late': { deciders: 3, charges: TWO, faults: NO_FAULTS, bug: 'counts late' },
  'drops what it granted': { deciders: 2, charges: TWO, faults: NO_FAULTS, bug: 'drops what it granted' },
  'admits those who have waited': { deciders: 2, charges: TWO, faults: NO_FAULTS, bug: 'admits those who have waited' },
}
