import type { Config, Environment, RulesConfig } from '../config/load-config.ts'
import type { ComposedLimiter } from '../engine/limiter.ts'
import type { RulesEngine, WatchCandidates } from '../engine/rules-engine.ts'
import type { Store } from '../model/store.ts'
import type { ClaimReader } from '../request/identity/claims.ts'
import type { Log } from '../runtime/log.ts'
import type { Backend } from '../store/backend.ts'
import type { DocumentStore } from '../store/documents.ts'
import { CopiedDocuments } from './copied-documents.ts'
import { LiveRulesEngine } from './live-rules-engine.ts'
import { readPolicies } from './rule-policies.ts'

export interface RulesOptions {
  readonly config: Config
  readonly rules: RulesConfig
  /** What the configuration was read from. */
  readonly env: Environment
  readonly store: Pick<Store, 'learn'>
  /** Where the rules live: with the counts. */
  readonly backend: Pick<Backend, 'documents'>
  /** They are copied to where the counts will be; undefined: nowhere. */
  readonly mirror: Pick<Backend, 'documents'> | undefined
  readonly composed: ComposedLimiter
  /** Left out: no token can be verified. */
  readonly readClaim?: ClaimReader | undefined
  /** Is told how policies in shadow decide; left out, only the log is. */
  readonly watchShadow?: WatchCandidates | undefined
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  readonly log: Log
}

/** Where the rules of a deployment are. */
export function rulesKey(keyPrefix: string): string {
  return `${keyPrefix}:rules`
}

/** Where changes that concern single callers are recorded. */
export function journalKey(keyPrefix: string): string {
  return `${keyPrefix}:journal`
}

/** Makes the gateway follow the rules of its deployment. */
export async function openRules(options: RulesOptions): Promise<RulesEngine> {
  const { config, rules, env, store } = options
  return new LiveRulesEngine({
    ...options,
    ...rules,
    documents: await openDocuments(rulesKey(config.keyPrefix), options),
    journal: await openDocuments(journalKey(config.keyPrefix), options),
    policiesOf: (tables, list) => readPolicies(env, tables, list),
    prepareFor: (policies) => store.learn?.(new Set(policies.map(({ algorithm }) => algorithm))),
  })
}

async function openDocuments(key: string, { backend, mirror, log }: RulesOptions): Promise<DocumentStore> {
  const documents = await backend.documents(key)
  return mirror ? new CopiedDocuments(documents, await mirror.documents(key), log) : documents
}
