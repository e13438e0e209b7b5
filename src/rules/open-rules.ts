import type { RulesEngine } from '../engine/rules-engine.ts'
import { StoreError } from '../model/store.ts'
import type { Log } from '../runtime/log.ts'
import type { Backend } from '../store/backend.ts'
import {
  type DocumentStore,
  type DocumentWrite,
  isSameVersion,
  NO_DOCUMENT,
  type Revision,
  type StoredDocument,
  updateDocument,
  type VersionId,
  type Written,
} from '../store/documents.ts'
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

/**
 * Copies the newest version to another store, which has version numbers of its own. A writer waits for the copy; writes
 * of others, and failed copies, follow after a read. No copy replaces a newer version by an older one.
 */
export class CopiedDocuments implements DocumentStore {
  readonly #documents: DocumentStore
  readonly #copy: DocumentStore
  readonly #log: Log
  /** The newest version that is known here; undefined before the first reading. */
  #newest: VersionId | undefined
  #copied: VersionId | undefined

  constructor(documents: DocumentStore, copy: DocumentStore, log: Log) {
    this.#documents = documents
    this.#copy = copy
    this.#log = log
  }

  async read(known?: VersionId): Promise<StoredDocument | undefined> {
    const read = await this.#documents.read(known)
    if (read) this.#newest = read
    return read
  }

  async afterRead(): Promise<void> {
    if (!isSameVersion(this.#newest, this.#copied)) await this.#copyNewest()
  }

  readVersion(version: number): Promise<StoredDocument | undefined> {
    return this.#documents.readVersion(version)
  }

  history(): Promise<readonly Revision[]> {
    return this.#documents.history()
  }

  async write(write: DocumentWrite): Promise<Written> {
    const written = await this.#documents.write(write)
    if (written.kind === 'written') {
      this.#newest = written
      await this.#copyNewest(write.kept)
    }
    return written
  }

  async #copyNewest(kept?: number): Promise<void> {
    // If nothing was ever written here, the copy may be all there is.
    if (!this.#newest?.version) return
    try {
      let newest: StoredDocument | undefined
      // What the copy holds is no newer than what is read after it.
      const written = await updateDocument(this.#copy, async (copy) => {
        newest = (await this.#documents.read()) ?? NO_DOCUMENT
        const { text, actor, comment } = newest
        return newest.version === 0 || copy.text === text ? undefined : { text, actor, comment, kept }
      })
      if (!newest?.version || written?.kind === 'conflict') return
      this.#newest = { version: newest.version, id: newest.id }
      this.#copied = this.#newest
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      this.#log('warn', { event: 'rules_copy_failed', message: error.message })
    }
  }
}
