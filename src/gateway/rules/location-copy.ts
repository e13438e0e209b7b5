/** Reads the rules through a copy in each data center, so that its isolates read the store once for all of them. */
import { type DocumentStore, isSameVersion, type StoredDocument, type VersionId } from '../../core/store/documents.ts'
import type { Exchange } from '../../http/request/received-request.ts'

/** The part of Cloudflare's Cache API that is used: what one isolate puts, others in its data center match. */
export type LocationCache = Pick<Cache, 'match' | 'put'>

export interface LocationCopyOptions {
  readonly documents: Pick<DocumentStore, 'read'>
  readonly openCache: () => Promise<LocationCache>
  /** On the host of the request. It must not be guessed: a zone may be made to answer what its cache holds. */
  readonly path: string
  /** A copy that was read longer ago is none. */
  readonly maxAgeMs: number
  readonly now: () => number
}

export interface RulesReading {
  /** Undefined if the known version is the newest. */
  readonly document: StoredDocument | undefined
  /** When the store was read. */
  readonly readAtMs: number
}

interface Copy {
  readonly document: StoredDocument
  readonly readAtMs: number
}

/** A copy is kept for so many times as long as it is good for. */
const KEPT_AGES = 12

/** A zone without a cache, such as workers.dev, keeps no copies: the store is then read each time. */
export class LocationCopy {
  readonly #options: LocationCopyOptions

  constructor(options: LocationCopyOptions) {
    this.#options = options
  }

  /** @throws {StoreError} */
  async read(
    known: VersionId | undefined,
    { request, context }: Pick<Exchange, 'request' | 'context'>,
  ): Promise<RulesReading> {
    const { documents, path, maxAgeMs, now } = this.#options
    const url = new URL(path, request.url).href
    const copy = await this.#find(url)
    const isAhead = copy && (isSameVersion(copy.document, known) || copy.document.version > (known?.version ?? -1))
    const nowMs = now()
    if (isAhead && copy.readAtMs <= nowMs && nowMs - copy.readAtMs < maxAgeMs) {
      const { document, readAtMs } = copy
      return { document: isSameVersion(document, known) ? undefined : document, readAtMs }
    }
    // What is read may be the same as the copy, and not as what is known.
    const base = isAhead ? copy.document : undefined
    const read = await documents.read(base ?? known)
    const newest = read ?? base
    if (newest) context.waitUntil(this.#keep(url, { document: newest, readAtMs: nowMs }))
    return { document: isSameVersion(newest, known) ? undefined : newest, readAtMs: nowMs }
  }

  async #find(url: string): Promise<Copy | undefined> {
    try {
      const cache = await this.#options.openCache()
      const response = await cache.match(url)
      const copy = await response?.json<Partial<Copy>>()
      return copy?.document && copy.readAtMs !== undefined ? (copy as Copy) : undefined
    } catch {
      return undefined
    }
  }

  /** A copy that is too old still spares the next reader of the store a text that has not changed. */
  async #keep(url: string, copy: Copy): Promise<void> {
    const headers = { 'Cache-Control': `max-age=${Math.ceil((KEPT_AGES * this.#options.maxAgeMs) / 1_000)}` }
    try {
      const cache = await this.#options.openCache()
      await cache.put(url, Response.json(copy, { headers }))
    } catch {
      // The store is read without it.
    }
  }
}
