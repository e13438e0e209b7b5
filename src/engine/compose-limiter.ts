import type { Store } from '../model/store.ts'
import type { ClaimReader } from '../request/identity/claims.ts'
import type { Log } from '../runtime/log.ts'
import { TextLru } from '../runtime/lru.ts'
import { MemoryStore } from '../store/memory/memory-store.ts'
import { Decider, type DeciderOptions } from './decider.ts'
import type { CreateLeases } from './leases.ts'
import { Limiter, type LimiterOptions } from './limiter.ts'
import type { UpstreamHealth } from './shedding/upstream-health.ts'

/** How requests are limited, wherever that is done. */
export interface LimiterConfig
  extends Omit<LimiterOptions, 'decider' | 'health' | 'log' | 'readClaim' | 'digestsOfTokens'>,
    Pick<DeciderOptions, 'localShare'> {
  /** Deadline of a decision by the store, in milliseconds. */
  readonly storeTimeoutMs: number
}

/** What the parts depend on. */
export interface LimiterParts {
  readonly store: Store
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  readonly log: Log
  /** Left out: no permits are taken in advance. */
  readonly createLeases?: CreateLeases | undefined
  /** Left out: no token can be verified. */
  readonly readClaim?: ClaimReader | undefined
  /** Left out: what answers is not watched, and no request is ever shed. */
  readonly health?: UpstreamHealth | undefined
}

export interface ComposedLimiter
  extends Pick<LimiterParts, 'health'>,
    Required<Pick<LimiterOptions, 'digestsOfTokens'>> {
  readonly limiter: Limiter
  readonly decider: Decider
}

/** Puts together all that decides: a store, what surrounds it, and what reads requests. */
export function composeLimiter(config: LimiterConfig, parts: LimiterParts): ComposedLimiter {
  const { store, now, log, createLeases, readClaim, health } = parts
  const { localShare, storeTimeoutMs: timeoutMs } = config
  const decider = new Decider({ store, fallback: new MemoryStore(now), now, log, timeoutMs, createLeases, localShare })
  const digestsOfTokens = new TextLru<string>()
  const limiter = new Limiter({ ...config, decider, health, log, readClaim, digestsOfTokens })
  return { limiter, decider, health, digestsOfTokens }
}
