import type fc from 'fast-check'
import { inject } from 'vitest'
import { ALGORITHMS } from '../../src/algorithms/algorithm-table.ts'
import { longestWindowMs } from '../../src/algorithms/sliding-window.ts'
import type { Decision, DecisionRequest, StoreCharge } from '../../src/model/charge.ts'
import type { Release } from '../../src/model/store.ts'
import { backAndForthUs, type Configured, forwardUs } from './arbitraries.ts'
import { MemoryScript } from './memory-script.ts'
import { ObjectScript } from './object-network.ts'
import { expectProperty } from './property.ts'
import { connectRedis } from './redis-client.ts'
import { ScriptStore } from './script-store.ts'

/** A store at a time of the test's choosing: `nowUs` is in microseconds since the Unix epoch. */
export interface TimedStore {
  decide(request: DecisionRequest, nowUs: number): Promise<Decision>
  /** What it would decide then. */
  peek(request: DecisionRequest, nowUs: number): Promise<Decision>
  /** Gives slots back. */
  revoke(releases: readonly Release[], nowUs: number): Promise<void>
  /** Moves the deadlines of slots that are still held. */
  renew(rules: readonly StoreCharge[], nowUs: number): Promise<void>
  /** Units that each slot of a rule holds then. */
  heldUnits(rule: StoreCharge, nowUs: number): Promise<ReadonlyMap<number, number>>
  /** Marks of slots that may not be taken any more. */
  marks(rule: StoreCharge): Promise<number>
  /** What is kept of these rules, in whatever form: it is the same if nothing has changed. */
  kept(rules: readonly StoreCharge[], nowUs: number): Promise<unknown>
  /** When a key is forgotten, milliseconds since the Unix epoch; for one never written, in the past. */
  expiresAtMs(key: string): number
}

/** How a store is tried. */
export interface Trial {
  /** With nothing charged yet. */
  open(): TimedStore
  /** Steps of its clock. That of an object stands still while it is back, and tells nothing in that time. */
  readonly gapUs: fc.Arbitrary<number>
  /**
   * The rules of a decision, before and after a change of their limits. What several objects take back may leave a key
   * that lives for as long as other limits had it: it then counts what the script has forgotten. Of a log, an object
   * forgets at once what has left the longest window; the script may not have, when that window grows.
   */
  configured(rules: Configured[]): Configured[]
  readonly expectProperty: typeof expectProperty
}

const asTheyAre = (rules: Configured[]) => rules
const ofObjects = (rules: Configured[]) =>
  rules.map(({ before, after }) => ({
    before,
    after: rules.length === 1 && isKeptAsLong(before, after) ? after : before,
  }))

function isKeptAsLong(before: StoreCharge, after: StoreCharge): boolean {
  return !ALGORITHMS[before.algorithm].isLog || longestWindowMs(before) === longestWindowMs(after)
}

const redis = await connectRedis(inject('redisPort'))
// It lives as long as the worker, which runs several files.
redis.unref()

const MEMORY: Trial = {
  open: () => new MemoryScript(),
  gapUs: backAndForthUs,
  configured: asTheyAre,
  // Redis is compared with it at every step.
  expectProperty: (property, numRuns) => expectProperty(property, numRuns, 1 / 8),
}
export const REDIS: Trial = {
  open: () => new ScriptStore(redis),
  gapUs: backAndForthUs,
  configured: asTheyAre,
  expectProperty,
}
export const OBJECTS: Trial = {
  open: () => new ObjectScript(),
  gapUs: forwardUs,
  configured: ofObjects,
  expectProperty: (property, numRuns) => expectProperty(property, numRuns, 1 / 3),
}

/** Every store, by name: each law of stores is tried on all of them. */
export const TIMED_STORES: readonly (readonly [name: string, trial: Trial])[] = [
  ['twin in memory', MEMORY],
  ['script in Redis', REDIS],
  ['Durable Objects', OBJECTS],
]
