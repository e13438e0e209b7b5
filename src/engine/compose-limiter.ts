import type { Store } from '../model/store.ts'
import type { ClaimReader } from '../request/identity/claims.ts'
import type { Log } from '../runtime/log.ts'
import { TextLru } from '../runtime/lru.ts'
import { MemoryStore } from '../store/memory/memory-store.ts'
import { Engine, type EngineOptions } from './engine.ts'
import { Limiter, type LimiterOptions } from './limiter.ts'
import type { UpstreamHealth } from './shedding/upstream-health.ts'

/** How requests are limited, wherever that is done. */
export interface LimiterConfig
  extends Omit<LimiterOptions, 'engine' | 'health' | 'log' | 'readClaim' | 'digestsOfTokens'>,
    Pick<EngineOptions, 'localShare'> {
  /** Deadline of a decision by the store, in milliseconds. */
  readonly storeTimeoutMs: number
}

/** What the parts depend on. */
export interface LimiterParts extends Pick<EngineOptions, 'leases' | 'avoided'> {
  readonly store: Store
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  readonly log: Log
  /** Left out: no token can be verified. */
  readonly readClaim?: ClaimReader | undefined
  /** Left out: what answers is not watched, and no request is ever shed. */
  readonly health?: UpstreamHealth | undefined
}

export interface ComposedLimiter
  extends Pick<LimiterParts, 'health'>,
    Required<Pick<LimiterOptions, 'digestsOfTokens'>> {
  readonly limiter: Limiter
  readonly engine: Engine
}

/** Puts together all that decides: a store, the engine around it, and the limiter that reads requests. */
export function composeLimiter(config: LimiterConfig, parts: LimiterParts): ComposedLimiter {
  const { now, log, readClaim, health } = parts
  const { localShare, storeTimeoutMs: timeoutMs } = config
  const engine = new Engine({ ...parts, fallback: new MemoryStore(now), timeoutMs, localShare })
  const digestsOfTokens = new TextLru<string>()
  const limiter = new Limiter({ ...config, engine, health, log, readClaim, digestsOfTokens })
  return { limiter, engine, health, digestsOfTokens }
}
