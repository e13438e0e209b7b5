import type { Documents, DocumentWrite, Revision, StoredDocument, VersionId, Written } from '../../documents.ts'
import { ObjectCalls, type ObjectCallsOptions } from './object-calls.ts'

export interface ObjectDocumentsOptions extends ObjectCallsOptions {
  /** Name of the object that keeps it. */
  readonly key: string
}

/** A document in a Durable Object. To find out that there is nothing new takes one request, which reads one row. */
export class ObjectDocuments implements Documents {
  readonly #calls: ObjectCalls

  constructor({ key, ...options }: ObjectDocumentsOptions) {
    this.#calls = new ObjectCalls(options, key)
  }

  async read(known?: VersionId): Promise<StoredDocument | undefined> {
    return (await this.#calls.call<StoredDocument | null>('documents', 'read', known ?? null)) ?? undefined
  }

  async readVersion(version: number): Promise<StoredDocument | undefined> {
    return (await this.#calls.call<StoredDocument | null>('documents', 'readVersion', version)) ?? undefined
  }

  history(): Promise<readonly Revision[]> {
    return this.#calls.call('documents', 'history')
  }

  write(write: DocumentWrite): Promise<Written> {
    return this.#calls.call('documents', 'write', write)
  }
}
