/** Keeps a copy of the rules where the counts will be. */
import { StoreError } from '../../core/model/store.ts'
import type { Log } from '../../core/runtime/log.ts'
import {
  type DocumentStore,
  isSameVersion,
  NO_DOCUMENT,
  type StoredDocument,
  updateDocument,
  type VersionId,
} from '../../core/store/documents.ts'

/**
 * Copies the newest version to another store, which has version numbers of its own. A writer waits for the copy; writes
 * of others, and failed copies, follow after a read. No copy replaces a newer version by an older one.
 */
export function copyDocuments(documents: DocumentStore, copy: DocumentStore, log: Log): Required<DocumentStore> {
  /** The newest version that is known here; undefined before the first reading. */
  let newest: VersionId | undefined
  let copied: VersionId | undefined

  async function copyNewest(kept?: number): Promise<void> {
    // If nothing was ever written here, the copy may be all there is.
    if (!newest?.version) return
    try {
      let read: StoredDocument = NO_DOCUMENT
      // What the copy holds is no newer than what is read after it.
      const written = await updateDocument(copy, async (before) => {
        read = (await documents.read()) ?? NO_DOCUMENT
        const { text, actor, comment } = read
        return read.version === 0 || before.text === text ? undefined : { text, actor, comment, kept }
      })
      if (read.version === 0 || written?.kind === 'conflict') return
      newest = { version: read.version, id: read.id }
      copied = newest
    } catch (error) {
      if (!(error instanceof StoreError)) throw error
      log('warn', { event: 'rules_copy_failed', message: error.message })
    }
  }

  return {
    async read(known) {
      const read = await documents.read(known)
      if (read) newest = read
      return read
    },
    async afterRead() {
      if (!isSameVersion(newest, copied)) await copyNewest()
    },
    readVersion: (version) => documents.readVersion(version),
    readHistory: () => documents.readHistory(),
    async write(write) {
      const written = await documents.write(write)
      if (written.kind === 'written') {
        newest = written
        await copyNewest(write.kept)
      }
      return written
    },
  }
}
