/** Counts events in a sliding window, and refuses none. */
import type { StoreCharge } from '../core/model/charge.ts'
import { DURATION_EXPECTED, parseDuration } from '../core/model/limits.ts'
import type { Store } from '../core/model/store.ts'
import * as v from '../core/options/readers.ts'
import { createPolicyCharge, type Identity } from './charge-builder.ts'
import { COUNT_READERS, type CountOptions } from './common-options.ts'
import { readPolicy } from './policies.ts'
import { memoryStore, refuseSharedNames } from './stores.ts'

export interface SlidingWindowCounterOptions extends CountOptions {
  /**
   * Length of the window, from 1 ms to 53 weeks.
   * @example '5s'
   */
  readonly window: string
  /**
   * Name of the count, up to 64 letters, digits, "-" or "_": part of the key.
   * @default 'count'
   * @example 'signups'
   */
  readonly name?: string | undefined
  /**
   * Distinguishes several counts of one name.
   * @default none
   * @example 'user-1'
   */
  readonly identity?: Identity | undefined
}

/** No count reaches it, so nothing is ever refused; and every client of Redis reads it exactly. */
const NO_LIMIT = 2 ** 52

const READERS = {
  window: v.required(v.parsed(DURATION_EXPECTED, parseDuration)),
  name: v.withDefault(v.NAME, 'count'),
  identity: v.ANYTHING,
  ...COUNT_READERS,
} satisfies Readonly<Record<keyof SlidingWindowCounterOptions, v.Reader>>

/**
 * Counts what was added in the last seconds, or whatever the window is: exactly, to the millisecond. What was added
 * exactly a window ago has gone. It only counts, and refuses nothing.
 *
 * Neither `add` nor `get` takes longer the more the window holds. In memory it keeps two numbers for each millisecond
 * in which something was added; in Redis, 16 bytes for each call of `add`.
 */
export class SlidingWindowCounter {
  readonly #store: Store
  readonly #charge: StoreCharge

  /** @throws {OptionError} for a wrong option */
  constructor(options: SlidingWindowCounterOptions) {
    const values = v.readOptions('SlidingWindowCounter', options, READERS)
    const { window: windowMs, name, keyPrefix, identitySecret, now } = values
    const store = values.store ?? memoryStore({ now })
    const policy = readPolicy({ name, algorithm: 'sliding-window', limits: `1/${windowMs}ms` }, 'policy', 'local')
    refuseSharedNames(store, keyPrefix, [policy])
    const charge = createPolicyCharge(policy, { keyPrefix, secret: identitySecret }, options.identity ?? [''], 1)
    this.#charge = { ...charge, limits: [{ limit: NO_LIMIT, windowMs }] }
    this.#store = store.open(['sliding-window'])
  }

  /**
   * Counts more.
   * @example const lastFiveSeconds = await counter.add()
   * @param count an integer from 1 to 1,000,000,000
   * @returns what the window then holds
   * @throws {OptionError} for another count. @throws {StoreError} if the store gives no answer: it may have counted
   */
  async add(count = 1): Promise<number> {
    v.read(v.integer(1, v.MAX_COST), count, 'count')
    return this.#decide('take', count)
  }

  /**
   * Reads what the window holds now.
   * @example const lastFiveSeconds = await counter.get()
   * @throws {StoreError} if the store gives no answer
   */
  get(): Promise<number> {
    return this.#decide('peek', 1)
  }

  async #decide(action: 'take' | 'peek', cost: number): Promise<number> {
    const { usage } = await this.#store.decide({ action, permits: 1, charges: [{ ...this.#charge, cost }] })
    return NO_LIMIT - (usage[0]?.[0]?.remaining ?? NO_LIMIT)
  }
}
