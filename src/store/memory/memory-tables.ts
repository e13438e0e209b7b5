import {
  addCounts,
  addTo,
  type CounterValues,
  type Flush,
  findPeriodStart,
  KEPT_MS,
  type MutablePeriod,
  PERIOD_MS,
  type Period,
  type Resolution,
  type StatisticsStore,
} from '../counters.ts'
import {
  checkWrite,
  cutNote,
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
    const refusal = checkWrite(write, this.#newest)
    if (refusal) return refusal
    const { text, actor, comment, kept = KEPT_VERSIONS } = write
    const atMs = Math.floor(this.#now())
    const newest = { version: this.#newest.version + 1, id: crypto.randomUUID() }
    const written = { ...newest, atMs, actor: cutNote(actor), comment: cutNote(comment), text }
    this.#kept = [written, ...this.#kept].slice(0, kept)
    return { kind: 'written', ...newest, atMs }
  }

  get #newest(): StoredDocument {
    return this.#kept[0] ?? NO_DOCUMENT
  }
}

export class MemoryCounters implements StatisticsStore {
  readonly #now: () => number
  readonly #periods: Record<Resolution, Map<number, MutablePeriod>> = { minute: new Map(), hour: new Map() }
  readonly #totals = new Map<string, number>()
  readonly #added = new Map<string, number>()

  /** @param now milliseconds since the Unix epoch */
  constructor(now: () => number) {
    this.#now = now
  }

  async add({ source, number, minutes }: Flush): Promise<void> {
    if (number <= (this.#added.get(source) ?? 0)) return
    this.#added.set(source, number)
    for (const minute of minutes) {
      addTo(this.#findPeriod('minute', minute.startMs), minute)
      addTo(this.#findPeriod('hour', minute.startMs), minute)
      addCounts(this.#totals, minute.counts)
    }
    this.#deleteOld('minute')
    this.#deleteOld('hour')
  }

  async read(resolution: Resolution, fromMs: number, toMs: number): Promise<readonly Period[]> {
    this.#deleteOld(resolution)
    return [...this.#periods[resolution].values()]
      .filter(({ startMs }) => startMs < toMs && startMs + PERIOD_MS[resolution] > fromMs)
      .sort((a, b) => a.startMs - b.startMs)
      .map(({ startMs, counts, sketches }) => ({ startMs, counts: new Map(counts), sketches: new Map(sketches) }))
  }

  async readTotals(): Promise<CounterValues> {
    return new Map(this.#totals)
  }

  #findPeriod(resolution: Resolution, atMs: number): MutablePeriod {
    const startMs = findPeriodStart(resolution, atMs)
    const periods = this.#periods[resolution]
    const period = periods.get(startMs) ?? { startMs, counts: new Map(), sketches: new Map() }
    periods.set(startMs, period)
    return period
  }

  #deleteOld(resolution: Resolution): void {
    const oldestMs = this.#now() - KEPT_MS[resolution] - PERIOD_MS[resolution]
    const periods = this.#periods[resolution]
    for (const startMs of periods.keys()) if (startMs < oldestMs) periods.delete(startMs)
  }
}
