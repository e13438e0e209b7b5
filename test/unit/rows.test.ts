import { expect, test } from 'vitest'
import { WindowLog } from '../../src/core/algorithms/window-log.ts'
import {
  addEntry,
  deleteBefore,
  LOG,
  type PagedList,
  removeUnits,
  writePages,
} from '../../src/core/store/durable-object/rows.ts'
import { MemoryRows } from '../support/object-network.ts'

/** A list of so many entries of 2 units, one a millisecond from 1 on, and the log of the same. */
function subject(entries: number) {
  const rows = new MemoryRows()
  const list: PagedList = { kind: LOG, pages: [], tail: [] }
  const log = new WindowLog()
  for (let ms = 1; ms <= entries; ms++) {
    addEntry(list, ms, 2)
    log.add(ms, 2)
    writePages(list, rows)
  }
  const stored = () => rows.list().map(({ kind, n, body }) => [kind, n, JSON.parse(body).length])
  const remove = (ms: number, units: number) => removeUnits(list, log, ms, units, rows)
  return { rows, list, log, stored, remove }
}

test('addEntry() adds to the newest entry of the same date', () => {
  const list: PagedList = { kind: LOG, pages: [], tail: [] }
  for (const [ms, units] of [
    [1, 2],
    [1, 3],
    [2, 1],
  ] as const)
    addEntry(list, ms, units)
  expect(list.tail).toEqual([1, 5, 2, 1])
})

test('writePages() moves items to a row once they are more than a page, and the newest stay', () => {
  expect(subject(128).list).toMatchObject({ pages: [], tail: { length: 256 } })
  const one = subject(129)
  expect([one.list.pages, one.list.tail, one.stored()]).toEqual([[{ n: 1, latestMs: 128 }], [129, 2], [[LOG, 1, 256]]])
  expect(subject(257).list.pages).toEqual([
    { n: 1, latestMs: 128 },
    { n: 2, latestMs: 256 },
  ])
})

test('deleteBefore() deletes pages of which nothing is left, and the items of the newest', () => {
  const { rows, list, stored } = subject(258)
  deleteBefore(list, 128, rows)
  expect(stored()).toHaveLength(2)
  deleteBefore(list, 129, rows)
  expect([stored(), list.tail]).toEqual([[[LOG, 2, 256]], [257, 2, 258, 2]])
  deleteBefore(list, 258, rows)
  expect([stored(), list.pages, list.tail]).toEqual([[], [], [258, 2]])
  deleteBefore(list, Number.POSITIVE_INFINITY, rows)
  expect(list.tail).toEqual([])
  // Those that were given up have negative times.
  list.tail.push(-5, 1, -6, 2, 7, 3)
  deleteBefore(list, 6, rows)
  expect(list.tail).toEqual([-6, 2, 7, 3])
})

test('removeUnits() changes the entry of a date, in the row that it is in', () => {
  const { rows, list, log, stored, remove } = subject(258)
  remove(258, 1)
  expect([list.tail, log.total]).toEqual([[257, 2, 258, 1], 515])
  remove(257, 2)
  expect(list.tail).toEqual([258, 1])
  remove(256, 1)
  expect(JSON.parse(rows.get(LOG, 2) ?? '').slice(-4)).toEqual([255, 2, 256, 1])
  remove(1, 2)
  expect(JSON.parse(rows.get(LOG, 1) ?? '').slice(0, 4)).toEqual([2, 2, 3, 2])
  const written = rows.written
  remove(1, 2)
  expect(rows.written).toBe(written)
  for (let ms = 2; ms <= 128; ms++) remove(ms, 2)
  expect([stored(), list.pages]).toEqual([[[LOG, 2, 256]], [{ n: 2, latestMs: 256 }]])
  // Of a list, the newest items are in its tail.
  remove(258, 1)
  expect([stored(), list.pages, list.tail.length, list.tail.slice(-2)]).toEqual([[], [], 256, [256, 1]])
})
