/** The rows in which an object keeps its state, and lists that are too long for one row. */
import type { WindowLog } from '../../algorithms/window-log.ts'
import { hasTable, type ObjectDatabase, select } from './objects.ts'

export interface ObjectRow {
  readonly kind: number
  readonly n: number
  readonly body: string
}

/** The rows of one object, each a text under a kind and a number. They are durable before any answer leaves. */
export interface Rows {
  /** Sorted by kind, then by number. */
  list(): Iterable<ObjectRow>
  get(kind: number, n: number): string | undefined
  put(kind: number, n: number, body: string): void
  delete(kind: number, n: number): void
}

/** Kinds of rows: one that each change writes, pages of older log entries and decisions, and one for each slot. */
export const HEAD = 0
export const LOG = 1
export const SLOTS = 3
export const DECISIONS = 4

export class SqlRows implements Rows {
  readonly #sql: ObjectDatabase
  #hasTable = false

  constructor(sql: ObjectDatabase) {
    this.#sql = sql
  }

  list(): Iterable<ObjectRow> {
    this.#hasTable = hasTable(this.#sql, 'kept')
    return this.#hasTable ? select(this.#sql, 'SELECT kind, n, body FROM kept ORDER BY kind, n') : []
  }

  get(kind: number, n: number): string | undefined {
    const [row] = select<ObjectRow>(this.#sql, 'SELECT body FROM kept WHERE kind = ? AND n = ?', kind, n)
    return row?.body
  }

  put(kind: number, n: number, body: string): void {
    // An object that is only read keeps nothing.
    if (!this.#hasTable) {
      this.#sql.exec(
        'CREATE TABLE IF NOT EXISTS kept (kind INTEGER, n INTEGER, body TEXT, PRIMARY KEY (kind, n)) WITHOUT ROWID',
      )
      this.#hasTable = true
    }
    this.#sql.exec(
      'INSERT INTO kept (kind, n, body) VALUES (?, ?, ?) ON CONFLICT (kind, n) DO UPDATE SET body = excluded.body',
      ...[kind, n, body],
    )
  }

  delete(kind: number, n: number): void {
    this.#sql.exec('DELETE FROM kept WHERE kind = ? AND n = ?', kind, n)
  }
}

/** Numbers in a page, two for each item. */
const PAGE_LENGTH = 256

/**
 * A list in order of time, flat. Each item is two numbers: an entry of a log is its date and its units; a decision is its
 * time, negative if it was given up, and its number. The newest items are part of the head row, so that a change rewrites
 * few; older ones are in rows of their own.
 */
export interface PagedList {
  readonly kind: number
  readonly pages: { readonly n: number; readonly latestMs: number }[]
  /** The newest items; empty only if there are none at all. */
  tail: number[]
}

/** Takes the items of a flat list, each two numbers. */
export function forEachPair(numbers: readonly number[], use: (first: number, second: number) => void): void {
  for (let at = 0; at < numbers.length; at += 2) use(numbers[at] as number, numbers[at + 1] as number)
}

export function addPage({ pages }: PagedList, n: number, items: readonly number[]): void {
  pages.push({ n, latestMs: Math.abs(items.at(-2) ?? 0) })
}

/** Moves items that have become many to a row of their own. The newest stays: what comes next may be added to it. */
export function writePages(list: PagedList, rows: Rows): void {
  if (list.tail.length <= PAGE_LENGTH) return
  const n = (list.pages.at(-1)?.n ?? 0) + 1
  const items = list.tail.splice(0, PAGE_LENGTH)
  rows.put(list.kind, n, JSON.stringify(items))
  addPage(list, n, items)
}

/** Deletes the items before a moment, but of rows only those of which nothing is left. */
export function deleteBefore({ kind, pages, tail }: PagedList, sinceMs: number, rows: Rows): void {
  for (let first = pages[0]; first && first.latestMs < sinceMs; first = pages[0]) {
    rows.delete(kind, first.n)
    pages.shift()
  }
  let length = 0
  while (Math.abs(tail[length] ?? sinceMs) < sinceMs) length += 2
  if (length > 0) tail.splice(0, length)
}

/** Adds an entry to a log, or its units to the newest entry if that has the same date. */
export function addEntry({ tail }: PagedList, dateMs: number, units: number): void {
  if (tail.at(-2) === dateMs) tail.push((tail.pop() as number) + units)
  else tail.push(dateMs, units)
}

/** Removes units from the entry of a date, as if they had never been admitted, from a log and its list. */
export function removeUnits(list: PagedList, log: WindowLog, dateMs: number, units: number, rows: Rows): void {
  const remaining = log.remove(dateMs, units)
  if (remaining === undefined) return
  const { pages } = list
  const pageAt = pages.findIndex(({ latestMs }) => latestMs >= dateMs)
  const page = pages[pageAt]
  const entries = page ? readPage(page.n, rows) : list.tail
  const at = entries.findIndex((number, at) => at % 2 === 0 && number === dateMs)
  if (at >= 0) entries.splice(at, 2, ...(remaining > 0 ? [dateMs, remaining] : []))
  if (page && entries.length > 0) rows.put(LOG, page.n, JSON.stringify(entries))
  else if (page) {
    pages.splice(pageAt, 1)
    rows.delete(LOG, page.n)
  }
  const last = list.tail.length === 0 ? pages.pop() : undefined
  if (!last) return
  list.tail = readPage(last.n, rows)
  rows.delete(LOG, last.n)
}

function readPage(n: number, rows: Rows): number[] {
  return JSON.parse(rows.get(LOG, n) ?? '[]')
}
