/** Documents and statistics in this process's memory. */
import {
  addFlush,
  type CounterValues,
  type Flush,
  findExpiry,
  type KeptPeriod,
  PERIOD_MS,
  type Period,
  type Resolution,
  type StatisticsStore,
} from '../counters.ts'
import {
  createNextVersion,
  type DocumentStore,
  type DocumentWrite,
  isSameVersion,
  KEPT_VERSIONS,
  NO_DOCUMENT,
  type Revision,
  type StoredDocument,
  type VersionId,
  type Written,
} from '../documents.ts'

export class MemoryDocuments implements DocumentStore {
  readonly #now: () => number
  /** Newest first. */
  #kept: readonly StoredDocument[] = []

  /** @param now milliseconds since the Unix epoch */
  constructor(now: () => number) {
    this.#now = now
  }

  async read(known?: VersionId): Promise<StoredDocument | undefined> {
    const newest = this.#newest
    return isSameVersion(newest, known) ? undefined : newest
  }

  async readVersion(version: number): Promise<StoredDocument | undefined> {
    return this.#kept.find((kept) => kept.version === version)
  }

  async readHistory(): Promise<readonly Revision[]> {
    return this.#kept.map(({ version, id, atMs, actor, comment }) => ({ version, id, atMs, actor, comment }))
  }

  async write(write: DocumentWrite): Promise<Written> {
    const next = createNextVersion(write, this.#newest, Math.floor(this.#now()))
    if ('kind' in next) return next
    this.#kept = [next, ...this.#kept].slice(0, write.kept ?? KEPT_VERSIONS)
    const { version, id, atMs } = next
    return { kind: 'written', version, id, atMs }
  }

  get #newest(): StoredDocument {
    return this.#kept[0] ?? NO_DOCUMENT
  }
}

export class MemoryCounters implements StatisticsStore {
  readonly #now: () => number
  readonly #kept = new Map<string, KeptPeriod & { readonly expiresAtMs: number }>()

  /** @param now milliseconds since the Unix epoch */
  constructor(now: () => number) {
    this.#now = now
  }

  async add(flush: Flush): Promise<void> {
    const nowMs = this.#now()
    for (const kept of addFlush(flush, (period, startMs) => this.#kept.get(`${period} ${startMs}`))) {
      this.#kept.set(`${kept.period} ${kept.startMs}`, { ...kept, expiresAtMs: findExpiry(kept, nowMs) })
    }
    for (const [name, { expiresAtMs }] of this.#kept) if (expiresAtMs < nowMs) this.#kept.delete(name)
  }

  async read(resolution: Resolution, fromMs: number, toMs: number): Promise<readonly Period[]> {
    const nowMs = this.#now()
    return [...this.#kept.values()]
      .filter(({ period, expiresAtMs }) => period === resolution && expiresAtMs >= nowMs)
      .filter(({ startMs }) => startMs < toMs && startMs + PERIOD_MS[resolution] > fromMs)
      .sort((a, b) => a.startMs - b.startMs)
      .map(({ startMs, counts, sketches }) => ({ startMs, counts: new Map(counts), sketches: new Map(sketches) }))
  }

  async readTotals(): Promise<CounterValues> {
    return new Map(this.#kept.get('total 0')?.counts)
  }
}
