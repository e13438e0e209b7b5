import type { DocumentStore } from '../../src/store/documents.ts'

/** Every place for documents that the contract suite runs over, by name; two of the same key are the same document. */
export const DOCUMENTS: Record<string, (key: string) => DocumentStore> =
  navigator.userAgent === 'Cloudflare-Workers'
    ? (await import('./worker-stores.ts')).WORKER_DOCUMENTS
    : (await import('./tcp-stores.ts')).TCP_DOCUMENTS
