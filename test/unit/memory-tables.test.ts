import { expect, test, vi } from 'vitest'
import { KEPT_MS, PERIOD_MS, type Resolution } from '../../src/core/store/counters.ts'
import { type DocumentWrite, MAX_DOCUMENT_BYTES, NO_DOCUMENT, updateDocument } from '../../src/core/store/documents.ts'
import { MemoryCounters, MemoryDocuments } from '../../src/core/store/memory/memory-tables.ts'

const START_MS = 1_800_000_000_000

test.each<Resolution>(['minute', 'hour'])('MemoryCounters drops a %s when its time is over', async (resolution) => {
  const clock = { now: START_MS }
  const counters = new MemoryCounters(() => clock.now)
  const minute = { startMs: START_MS, counts: new Map([['admitted', 1]]), sketches: new Map() }
  await counters.add({ source: 'isolate', number: 1, minutes: [minute] })
  const periods = async () => (await counters.read(resolution, 0, clock.now + 1)).length
  clock.now = START_MS + PERIOD_MS[resolution] + KEPT_MS[resolution]
  expect(await periods()).toBe(1)
  clock.now += 1
  expect(await periods()).toBe(0)
  expect((await counters.readTotals()).get('admitted')).toBe(1)
})

test('MemoryCounters reads the periods that overlap with a time, the earliest first, and a flush once', async () => {
  const counters = new MemoryCounters(() => START_MS + 600_000)
  const minute = (at: number) => {
    return { startMs: START_MS + at * 60_000, counts: new Map([['admitted', at]]), sketches: new Map() }
  }
  await counters.add({ source: 'one', number: 1, minutes: [minute(3), minute(2)] })
  for (const number of [1, 2]) await counters.add({ source: 'other', number, minutes: [minute(2)] })
  await counters.add({ source: 'other', number: 2, minutes: [minute(2)] })
  await counters.add({ source: 'other', number: 9, minutes: [] })
  const read = async (fromMs: number, toMs: number, resolution: Resolution = 'minute') => {
    const periods = await counters.read(resolution, START_MS + fromMs, START_MS + toMs)
    return periods.map(({ startMs, counts }) => [(startMs - START_MS) / 60_000, counts.get('admitted')])
  }
  expect(await read(0, 600_000)).toEqual([
    [2, 6],
    [3, 3],
  ])
  expect([await read(180_000, 180_000), await read(179_999, 180_000), await read(180_000, 180_001)]).toEqual([
    [],
    [[2, 6]],
    [[3, 3]],
  ])
  expect(await read(0, 600_000, 'hour')).toEqual([[0, 9]])
  expect(await counters.readTotals()).toEqual(new Map([['admitted', 9]]))
})

test('MemoryDocuments keeps versions, newest first, as many as are to be kept', async () => {
  const clock = { now: START_MS + 0.5 }
  const documents = new MemoryDocuments(() => clock.now)
  const write = (text: string, expectedVersion: number, overrides: Partial<DocumentWrite> = {}) =>
    documents.write({ text, expectedVersion, actor: 'a', comment: 'c', ...overrides })
  expect([await documents.read(), await documents.readHistory()]).toEqual([NO_DOCUMENT, []])
  expect(await documents.read(NO_DOCUMENT)).toBeUndefined()
  const first = await write('{"n":1}', 0)
  expect(first).toEqual({ kind: 'written', version: 1, id: expect.stringMatching(/^.{36}$/), atMs: START_MS })
  expect(await write('{"n":1}', 0)).toEqual({ kind: 'conflict', version: 1 })
  expect(await write('{"n":2}', 1, { expectedId: 'other' })).toEqual({ kind: 'conflict', version: 1 })
  for (const text of ['{', '[]', ' {}']) expect(await write(text, 1)).toEqual({ kind: 'malformed', version: 1 })
  expect(await write(`{"n":"${'ä'.repeat(MAX_DOCUMENT_BYTES / 2)}"}`, 1)).toEqual({ kind: 'too-large', version: 1 })
  const exact = `{"n":"${'a'.repeat(MAX_DOCUMENT_BYTES - 8)}"}`
  const second = await write(exact, 1, { actor: 'x'.repeat(501), comment: 'y'.repeat(500) })
  expect(second).toMatchObject({ kind: 'written', version: 2 })
  expect(await documents.readVersion(1)).toMatchObject({ version: 1, text: '{"n":1}', atMs: START_MS, actor: 'a' })
  expect(await documents.readVersion(3)).toBeUndefined()
  expect(await documents.readHistory()).toMatchObject([
    { version: 2, actor: 'x'.repeat(500), comment: 'y'.repeat(500) },
    { version: 1, actor: 'a', comment: 'c' },
  ])
  expect((await documents.readHistory()).every((revision) => !('text' in revision))).toBe(true)
  const newest = await documents.read({ version: 2, id: 'other' })
  expect(newest).toMatchObject({ version: 2, text: exact })
  expect(await documents.read(newest)).toBeUndefined()
  await write('{}', 2, { kept: 2 })
  expect((await documents.readHistory()).map(({ version }) => version)).toEqual([3, 2])
})

test('updateDocument() tries again while others are faster, twelve times', async () => {
  const documents = new MemoryDocuments(() => START_MS)
  const change = { text: '{}', actor: '', comment: '' }
  expect(await updateDocument(documents, () => undefined)).toBeUndefined()
  const seen: number[] = []
  const interfere = (times: number) =>
    updateDocument(documents, async ({ version }) => {
      seen.push(version)
      if (seen.length <= times) await documents.write({ ...change, expectedVersion: version })
      return change
    })
  expect(await interfere(2)).toMatchObject({ kind: 'written', version: 3 })
  expect(seen).toEqual([0, 1, 2])
  vi.useFakeTimers()
  try {
    const writing = interfere(Number.POSITIVE_INFINITY)
    await vi.runAllTimersAsync()
    expect(await writing).toMatchObject({ kind: 'conflict' })
    expect(seen).toHaveLength(3 + 12)
  } finally {
    vi.useRealTimers()
  }
})
