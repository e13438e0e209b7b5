/** Options that limiters and middleware share. */
import type { LeaseSize } from '../core/engine/leases/with-leases.ts'
import type { OnStoreError } from '../core/model/policy.ts'
import * as v from '../core/options/readers.ts'
import type { Log } from '../core/runtime/log.ts'
import type { LimiterStore } from './stores.ts'

/** Where counts are kept. */
export interface CountOptions {
  /**
   * Stores the counts.
   * @default `memoryStore()`: this process's memory
   * @example redisStore(client)
   */
  readonly store?: LimiterStore | undefined
  /**
   * First part of every key in Redis, up to 64 letters, digits, "_", ".", ":" or "-".
   * @default 'sluice'
   * @example 'billing'
   */
  readonly keyPrefix?: string | undefined
  /**
   * Key of the HMAC of identities, at least 16 characters; without it, guesses can be tested against their hashes.
   * @default none
   * @example process.env.IDENTITY_SECRET
   */
  readonly identitySecret?: string | undefined
  /**
   * Milliseconds since the Unix epoch; the clock of the memory too, if no store is given.
   * @default Date.now
   * @example () => clock.nowMs
   */
  readonly now?: (() => number) | undefined
}

export const COUNT_READERS = {
  store: v.having<LimiterStore>(['open'], 'what memoryStore() or redisStore() makes'),
  keyPrefix: v.withDefault(v.KEY_PREFIX, 'sluice'),
  identitySecret: v.IDENTITY_SECRET,
  now: v.CLOCK,
} satisfies Readonly<Record<keyof CountOptions, v.Reader>>

/** How charges are decided. */
export interface LimitingOptions extends CountOptions {
  /**
   * Permits taken in advance for a busy caller: 2 to 10,000 at most, or as many as it needs (`auto`).
   * @default 'off'
   * @example 'auto'
   */
  readonly leases?: LeaseSize | 'off' | undefined
  /**
   * While the store gives no answer: exact limits of this process alone (`local`), no limits (`open`), or nothing is
   * granted (`closed`), which middleware answers by 503.
   * @default 'local'
   * @example 'closed'
   */
  readonly onStoreError?: OnStoreError | undefined
  /**
   * Share of each limit that is then allowed with `local`, above 0 and at most 1.
   * @default 1
   * @example 0.25
   */
  readonly localShare?: number | undefined
  /**
   * Writes warnings and errors.
   * @default JSON lines on the console, one a second for each event
   * @example (level, fields) => logger[level](fields)
   */
  readonly log?: Log | undefined
}

export const LIMITING_READERS = {
  ...COUNT_READERS,
  leases: v.withDefault(v.LEASES, 'off'),
  onStoreError: v.withDefault(v.STORE_ERROR_FALLBACK, 'local'),
  localShare: v.withDefault(v.SHARE, 1),
  log: v.FUNCTION,
} satisfies Readonly<Record<keyof LimitingOptions, v.Reader>>
