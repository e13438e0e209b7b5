import type { RulesEngine } from '../engine/rules-engine.ts'
import type { Backend } from '../store/backend.ts'
import type { DocumentStore } from '../store/documents.ts'
import { CopiedDocuments } from './copied-documents.ts'
import { LiveRulesEngine, type LiveRulesEngineOptions } from './live-rules-engine.ts'

export interface RulesOptions extends Omit<LiveRulesEngineOptions, 'documents' | 'auditLog'> {
  readonly backend: Pick<Backend, 'documents'>
  /** The rules are copied to where the counts will be; undefined: nowhere. */
  readonly mirror: Pick<Backend, 'documents'> | undefined
}

export function rulesKey(keyPrefix: string): string {
  return `${keyPrefix}:rules`
}

/** Where changes that concern single callers are recorded. */
export function auditLogKey(keyPrefix: string): string {
  return `${keyPrefix}:journal`
}

export async function openRules(options: RulesOptions): Promise<RulesEngine> {
  const { keyPrefix } = options.config
  const documents = await openDocuments(rulesKey(keyPrefix), options)
  const auditLog = await openDocuments(auditLogKey(keyPrefix), options)
  return new LiveRulesEngine({ ...options, documents, auditLog })
}

async function openDocuments(key: string, { backend, mirror, log }: RulesOptions): Promise<DocumentStore> {
  const documents = await backend.documents(key)
  return mirror ? new CopiedDocuments(documents, await mirror.documents(key), log) : documents
}
