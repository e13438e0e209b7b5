import { ConfigError } from '../config/config-error.ts'
import type { Config, Environment, RulesConfig } from '../config/load-config.ts'
import type { Log } from '../decide/log.ts'
import { upstashDocuments } from '../gateway/upstash-documents.ts'
import type { Govern } from '../limiter/governed.ts'
import type { ClaimReader } from '../request/identity/claims.ts'
import type { Documents } from '../store/documents.ts'
import { MemoryDocuments } from '../store/memory/memory-documents.ts'
import type { Store } from '../store/store.ts'
import { LiveLimiter } from './live-limiter.ts'
import { policiesOf } from './policies.ts'

export interface GatewayRulesOptions {
  readonly config: Config
  /** What the configuration was read from. */
  readonly env: Environment
  readonly store: Store
  /** Left out: no token can be verified. */
  readonly readClaim?: ClaimReader | undefined
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  readonly log: Log
}

/** Where the rules of a deployment are. */
export function rulesKey(keyPrefix: string): string {
  return `${keyPrefix}:rules`
}

/**
 * @throws {ConfigError} if all isolates share limits, but there is nowhere to share rules. `sluice check` cannot tell: it
 * does not know the Worker's secrets.
 */
export function refuseUnsharedRules({ rules, store, redis }: Pick<Config, 'rules' | 'store' | 'redis'>): void {
  if (rules && store === 'durable-object' && !redis) {
    throw new ConfigError('RULES', 'UPSTASH_REDIS_REST_URL and its token with it: rules are kept in Redis', 'on')
  }
}

/**
 * Makes the gateway follow the rules of its deployment.
 * @throws {ConfigError} as `refuseUnsharedRules` does
 */
export function gatewayRules(options: GatewayRulesOptions, { refreshMs, isShadow }: RulesConfig): Govern {
  const { config, env, store, readClaim, now, log } = options
  refuseUnsharedRules(config)
  return function govern(composed) {
    const documents = documentsOf(options)
    const limiter = new LiveLimiter({
      ...{ documents, refreshMs, isShadow, config, composed, readClaim, now, log },
      policiesOf: (tables, list) => policiesOf(env, tables, list),
      prepareFor: (policies) => store.learn?.(new Set(policies.map(({ algorithm }) => algorithm))),
    })
    return { limiter, documents, state: () => limiter.state }
  }
}

/** Without Redis, each isolate has rules of its own, as it has limits of its own. */
function documentsOf({ config: { redis, keyPrefix, storeTimeoutMs: timeoutMs }, now }: GatewayRulesOptions): Documents {
  return redis ? upstashDocuments({ ...redis, key: rulesKey(keyPrefix), timeoutMs }) : new MemoryDocuments(now)
}
