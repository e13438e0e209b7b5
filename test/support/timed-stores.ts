import type fc from 'fast-check'
import { inject } from 'vitest'
import { ALGORITHMS } from '../../src/core/algorithms/algorithm-table.ts'
import { findLongestMs } from '../../src/core/algorithms/sliding-window.ts'
import type { Decision, DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import type { Release } from '../../src/core/model/store.ts'
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
  renew(charges: readonly StoreCharge[], nowUs: number): Promise<void>
  /** Units that each slot of a charge holds then. */
  heldUnits(charge: StoreCharge, nowUs: number): Promise<ReadonlyMap<number, number>>
  /** Marks of slots that may not be taken any more. */
  marks(charge: StoreCharge): Promise<number>
  /** What is kept of these charges, in whatever form: it is the same if nothing has changed. */
  kept(charges: readonly StoreCharge[], nowUs: number): Promise<unknown>
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
   * The charges of a decision, before and after a change of their limits. What several objects take back may leave a key
   * that lives for as long as other limits had it: it then counts what the script has forgotten. Of a log, an object
   * forgets at once what has left the longest window; the script may not have, when that window grows.
   */
  configured(charges: Configured[]): Configured[]
  readonly expectProperty: typeof expectProperty
}

const asTheyAre = (charges: Configured[]) => charges
const ofObjects = (charges: Configured[]) =>
  charges.map(({ before, after }) => ({
    before,
    after: charges.length === 1 && isKeptAsLong(before, after) ? after : before,
  }))

function isKeptAsLong(before: StoreCharge, after: StoreCharge): boolean {
  return !ALGORITHMS[before.algorithm].isLog || findLongestMs(before) === findLongestMs(after)
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
  ['memory', MEMORY],
  ['script in Redis', REDIS],
  ['Durable Objects', OBJECTS],
]
