/** Opens the rules of a gateway, in its store. */
import { createDigest } from '../../core/runtime/digest.ts'
import type { Backend } from '../../core/store/backend.ts'
import type { DocumentStore } from '../../core/store/documents.ts'
import { copyDocuments } from './copied-documents.ts'
import { LiveRulesEngine, type LiveRulesEngineOptions } from './live-rules-engine.ts'
import { LocationCopy } from './location-copy.ts'

export interface RulesOptions extends Omit<LiveRulesEngineOptions, 'documents' | 'auditLog'> {
  readonly backend: Pick<Backend, 'documents'>
  /** The rules are copied to where the counts will be; undefined: nowhere. */
  readonly mirror: Pick<Backend, 'documents'> | undefined
}

export function formatRulesKey(keyPrefix: string): string {
  return `${keyPrefix}:rules`
}

/** Where changes that concern single callers are recorded. */
function formatAuditLogKey(keyPrefix: string): string {
  return `${keyPrefix}:audit`
}

export async function openRules(options: RulesOptions): Promise<LiveRulesEngine> {
  const { keyPrefix } = options.config
  const documents = await openDocuments(formatRulesKey(keyPrefix), options)
  const auditLog = await openDocuments(formatAuditLogKey(keyPrefix), options)
  return new LiveRulesEngine({ ...options, documents, auditLog, copy: openCopy(options, documents) })
}

/** Only Workers have the Cache API. */
function openCopy({ config, rules, now }: RulesOptions, documents: DocumentStore): LocationCopy | undefined {
  const { identitySecret, admin, redis, store, keyPrefix } = config
  const secret = identitySecret ?? admin?.token ?? redis?.token
  const { caches } = globalThis as { readonly caches?: CacheStorage }
  if (!caches || secret === undefined) return undefined
  const path = `/_sluice/${createDigest(secret)([store, redis?.url ?? '', formatRulesKey(keyPrefix)])}`
  return new LocationCopy({ documents, openCache: () => caches.open('sluice'), path, maxAgeMs: rules.refreshMs, now })
}

async function openDocuments(key: string, { backend, mirror, log }: RulesOptions): Promise<DocumentStore> {
  const documents = await backend.documents(key)
  return mirror ? copyDocuments(documents, await mirror.documents(key), log) : documents
}
