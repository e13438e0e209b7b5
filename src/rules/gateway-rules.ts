import { type Config, type Environment, OBJECTS, type RulesConfig, type StoreKind } from '../config/load-config.ts'
import type { Govern, WatchShadow } from '../engine/governed.ts'
import type { Store } from '../model/store.ts'
import type { ClaimReader } from '../request/identity/claims.ts'
import type { Log } from '../runtime/log.ts'
import type { Documents } from '../store/documents.ts'
import type { ObjectNamespace } from '../store/durable-object/objects.ts'
import { ObjectDocuments } from '../store/durable-object/table-clients.ts'
import { MemoryDocuments } from '../store/memory/memory-tables.ts'
import { upstashDocuments } from '../store/redis/upstash-tables.ts'
import { CopiedDocuments } from './copied-documents.ts'
import { LiveLimiter } from './live-limiter.ts'
import { policiesOf } from './policies.ts'

export interface GatewayRulesOptions {
  readonly config: Config
  /** What the configuration was read from. */
  readonly env: Environment
  readonly store: Store
  /** Left out: no token can be verified. */
  readonly readClaim?: ClaimReader | undefined
  /** Is told how policies in shadow decide; left out, only the log is. */
  readonly watchShadow?: WatchShadow | undefined
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  readonly log: Log
}

/** Where the rules of a deployment are. */
export function rulesKey(keyPrefix: string): string {
  return `${keyPrefix}:rules`
}

/** Where it is noted what was done about single callers. */
export function journalKey(keyPrefix: string): string {
  return `${keyPrefix}:journal`
}

/** Makes the gateway follow the rules of its deployment. */
export function gatewayRules(options: GatewayRulesOptions, { refreshMs, isShadow }: RulesConfig): Govern {
  const { config, env, store, readClaim, watchShadow, now, log } = options
  return function govern(composed) {
    const documents = documentsAt(rulesKey(config.keyPrefix), options)
    const journal = documentsAt(journalKey(config.keyPrefix), options)
    const limiter = new LiveLimiter({
      ...{ documents, refreshMs, isShadow, config, composed, readClaim, watchShadow, now, log },
      policiesOf: (tables, list) => policiesOf(env, tables, list),
      prepareFor: (policies) => store.learn?.(new Set(policies.map(({ algorithm }) => algorithm))),
    })
    return { limiter, documents, journal, state: () => limiter.state }
  }
}

/** What operators write is kept where counts are, and copied to where they will be. */
function documentsAt(key: string, options: GatewayRulesOptions): Documents {
  const { store, storeShadow } = options.config
  const documents = documentsIn(store, key, options)
  if (!storeShadow) return documents
  return new CopiedDocuments(documents, documentsIn(storeShadow, key, options), options.log)
}

/** In memory, each isolate has rules of its own, as it has limits of its own. */
function documentsIn(kind: StoreKind, key: string, { config, env, now }: GatewayRulesOptions): Documents {
  const { redis, storeTimeoutMs: timeoutMs } = config
  if (kind === 'durable-object') {
    return new ObjectDocuments({ namespace: env[OBJECTS] as ObjectNamespace, key, timeoutMs })
  }
  return kind === 'redis' && redis ? upstashDocuments({ ...redis, key, timeoutMs }) : new MemoryDocuments(now)
}
