import {
  addCounts,
  addTo,
  KEPT_MS,
  type MutablePeriod,
  PERIOD_MS,
  type Resolution,
  startOf,
  TOTALS_KEPT_MS,
} from '../../counters.ts'
import type { ObjectDatabase } from '../limit-object.ts'
import { hasTable } from './has-table.ts'
import { fromPlain, type PlainCount, type PlainFlush, type PlainPeriod, toPlain } from './messages.ts'

/** So long after it was sent, a flush is still known. */
const KNOWN_FOR_MS = 2 * 3_600_000

/** What a row holds, as JSON. */
interface Body extends Omit<PlainPeriod, 'startMs'> {
  /** Of a minute: the number of the last flush of each source whose first minute it was. */
  readonly added?: readonly PlainCount[]
}

interface Kept extends MutablePeriod {
  readonly added: Map<string, number>
}

/** Of the row of all that was ever counted: there is one, with 0 for its start. */
const TOTALS = 'total'

/**
 * What is counted, in the SQLite database of an object: a row for each minute and hour, and one for all. A flush rewrites
 * the rows that it is about, however much it holds.
 */
export class CounterTable {
  readonly #sql: ObjectDatabase
  readonly #nowMs: number

  constructor(sql: ObjectDatabase, nowMs: number) {
    this.#sql = sql
    this.#nowMs = nowMs
  }

  add({ source, number, minutes }: PlainFlush): void {
    const [first] = minutes
    if (!first) return
    if (number <= (this.#kept('minute', first.startMs).added.get(source) ?? 0)) return
    this.#sql.exec(
      'CREATE TABLE IF NOT EXISTS counted (period TEXT, startMs INTEGER, expiresAtMs INTEGER, body TEXT, PRIMARY KEY (period, startMs)) WITHOUT ROWID',
    )
    const hours = new Map<number, Kept>()
    const totals = this.#kept(TOTALS, 0)
    for (const plain of minutes) {
      const more = fromPlain(plain)
      const minute = this.#kept('minute', more.startMs)
      addTo(minute, more)
      if (plain === first) minute.added.set(source, number)
      this.#put('minute', minute)
      const hourMs = startOf('hour', more.startMs)
      const hour = hours.get(hourMs) ?? this.#kept('hour', hourMs)
      hours.set(hourMs, hour)
      addTo(hour, more)
      addCounts(totals.counts, more.counts)
    }
    for (const hour of hours.values()) this.#put('hour', hour)
    this.#put(TOTALS, totals)
  }

  read(resolution: Resolution, fromMs: number, toMs: number): PlainPeriod[] {
    const rows = this.#rows<{ readonly startMs: number; readonly body: string }>(
      'SELECT startMs, body FROM counted WHERE period = ? AND startMs > ? AND startMs < ? AND expiresAtMs >= ? ORDER BY startMs',
      ...[resolution, fromMs - PERIOD_MS[resolution], toMs, this.#nowMs],
    )
    return rows.map(({ startMs, body }) => {
      const { counts, sketches } = JSON.parse(body) as Body
      return { startMs, counts, sketches }
    })
  }

  totals(): PlainCount[] {
    return [...this.#kept(TOTALS, 0).counts]
  }

  /** Deletes what nobody reads any more. @returns when there will be more to delete; undefined if nothing is left */
  sweep(): number | undefined {
    this.#sql.exec('DELETE FROM counted WHERE expiresAtMs < ?', this.#nowMs)
    const [row] = this.#rows<{ readonly atMs: number | null }>('SELECT MIN(expiresAtMs) AS atMs FROM counted')
    return row?.atMs ?? undefined
  }

  #kept(period: Resolution | typeof TOTALS, startMs: number): Kept {
    const [row] = this.#rows<{ readonly body: string }>(
      'SELECT body FROM counted WHERE period = ? AND startMs = ? AND expiresAtMs >= ?',
      ...[period, startMs, this.#nowMs],
    )
    const { counts, sketches, added }: Body = row ? JSON.parse(row.body) : { counts: [], sketches: [] }
    return { startMs, counts: new Map(counts), sketches: new Map(sketches), added: new Map(added) }
  }

  #put(period: Resolution | typeof TOTALS, kept: Kept): void {
    const { startMs, ...rest } = toPlain(kept)
    const body: Body = kept.added.size > 0 ? { ...rest, added: [...kept.added] } : rest
    this.#sql.exec(
      'INSERT INTO counted (period, startMs, expiresAtMs, body) VALUES (?, ?, ?, ?) ON CONFLICT (period, startMs) DO UPDATE SET expiresAtMs = excluded.expiresAtMs, body = excluded.body',
      ...[period, startMs, this.#expiresAtMs(period, startMs), JSON.stringify(body)],
    )
  }

  #expiresAtMs(period: Resolution | typeof TOTALS, startMs: number): number {
    if (period === TOTALS) return this.#nowMs + TOTALS_KEPT_MS
    return Math.max(startMs + PERIOD_MS[period] + KEPT_MS[period], this.#nowMs + KNOWN_FOR_MS)
  }

  /** An object that is only looked at keeps nothing. */
  #rows<Row>(query: string, ...values: (string | number)[]): Row[] {
    return hasTable(this.#sql, 'counted') ? ([...this.#sql.exec(query, ...values)] as Row[]) : []
  }
}
