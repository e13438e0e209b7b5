import type { SlidingWindowState } from '../../algorithms/sliding-window.ts'
import { LOG, type Rows } from './rows.ts'

/** Entries of a log that one row holds; younger ones are in the head row. */
const CHUNK = 128

/** Where the entries of a log are kept. Counted from the newest, because the oldest go. */
export interface LogLayout {
  /** Oldest first. */
  chunks: { readonly n: number; readonly size: number }[]
  /** Entries in the head row: the newest. */
  tail: number
}

/** Dates and units of entries, one after the other. */
export type Entries = readonly number[]

export function entriesOf({ dates, totals, before }: SlidingWindowState, from: number, to: number): number[] {
  const entries: number[] = []
  for (let i = from; i < to; i++) {
    entries.push(dates[i] as number, (totals[i] as number) - (i > 0 ? (totals[i - 1] as number) : before))
  }
  return entries
}

export function addEntries({ dates, totals, before }: SlidingWindowState, entries: Entries): void {
  for (let i = 0; i < entries.length; i += 2) {
    totals.push((totals.at(-1) ?? before) + (entries[i + 1] as number))
    dates.push(entries[i] as number)
  }
}

/** Moves entries that have become many to a row of their own, and deletes rows whose entries have all left. */
export function layOut(layout: LogLayout, log: SlidingWindowState, rows: Rows): void {
  const { dates, head } = log
  layout.tail = Math.min(layout.tail, dates.length)
  // The newest stays at hand: what comes in the same millisecond is added to it.
  if (layout.tail > CHUNK) {
    const from = dates.length - layout.tail
    const n = (layout.chunks.at(-1)?.n ?? 0) + 1
    rows.put(LOG, n, JSON.stringify(entriesOf(log, from, from + CHUNK)))
    layout.chunks.push({ n, size: CHUNK })
    layout.tail -= CHUNK
  }
  let kept = dates.length - head - layout.tail
  for (let i = layout.chunks.length - 1; i >= 0; i--) {
    if (kept <= 0) {
      for (const { n } of layout.chunks.splice(0, i + 1)) rows.delete(LOG, n)
      return
    }
    kept -= (layout.chunks[i] as { size: number }).size
  }
}

/** Takes units off the entry of a date, as if they had never been admitted. */
export function takeOff(layout: LogLayout, log: SlidingWindowState, dateMs: number, units: number, rows: Rows): void {
  const { dates, totals } = log
  const index = dates.indexOf(dateMs, log.head)
  if (index < 0) return
  const isGone = entriesOf(log, index, index + 1)[1] === units
  for (let i = index; i < totals.length; i++) (totals[i] as number) -= units
  const fromEnd = dates.length - 1 - index
  if (isGone) {
    dates.splice(index, 1)
    totals.splice(index, 1)
  }
  if (fromEnd < layout.tail) layout.tail -= isGone ? 1 : 0
  else rewrite(layout, log, fromEnd - layout.tail, isGone, rows)
  if (layout.tail === 0) recallLast(layout, rows)
}

/** @param fromEnd place of the changed entry among those in rows, counted from the newest */
function rewrite(layout: LogLayout, log: SlidingWindowState, fromEnd: number, isGone: boolean, rows: Rows): void {
  let place = fromEnd
  let end = log.dates.length - layout.tail
  for (let i = layout.chunks.length - 1; i >= 0; i--) {
    const { n, size } = layout.chunks[i] as { n: number; size: number }
    if (place >= size) {
      place -= size
      end -= size
      continue
    }
    const left = size - (isGone ? 1 : 0)
    layout.chunks[i] = { n, size: left }
    if (left > 0) rows.put(LOG, n, JSON.stringify(entriesOf(log, Math.max(0, end - left), end)))
    else {
      layout.chunks.splice(i, 1)
      rows.delete(LOG, n)
    }
    return
  }
}

function recallLast(layout: LogLayout, rows: Rows): void {
  const last = layout.chunks.pop()
  if (!last) return
  layout.tail = last.size
  rows.delete(LOG, last.n)
}
