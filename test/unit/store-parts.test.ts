/** Parts of stores that are plain data: sketches, periods, versions, times, states that expire. */
import { expect, onTestFinished, test, vi } from 'vitest'
import { ChargeTimes } from '../../src/core/store/charge-times.ts'
import {
  addCounts,
  addFlush,
  addTo,
  findExpiry,
  findPeriodStart,
  type KeptPeriod,
} from '../../src/core/store/counters.ts'
import {
  createNextVersion,
  cutNote,
  isSameVersion,
  NO_DOCUMENT,
  updateDocument,
} from '../../src/core/store/documents.ts'
import { ExpiringStates } from '../../src/core/store/memory/expiring-states.ts'
import { MemoryCounters, MemoryDocuments } from '../../src/core/store/memory/memory-tables.ts'
import { mergeSketches, NO_SKETCH, readSketch, truncateSketch, writeSketch } from '../../src/core/store/sketches.ts'
import { createCharge } from '../support/charges.ts'

test('mergeSketches() counts a name that is missing in one as often as its floor', () => {
  const one = {
    items: [
      { name: 'a', count: 5, over: 1, label: 'A' },
      { name: 'b', count: 4, over: 2 },
    ],
    floor: 3,
  }
  const other = {
    items: [
      { name: 'a', count: 7, over: 0 },
      { name: 'c', count: 6, over: 0, label: 'C' },
    ],
    floor: 2,
  }
  expect(mergeSketches(one, other, 3)).toEqual({
    items: [
      { name: 'a', count: 12, over: 1, label: 'A' },
      { name: 'c', count: 9, over: 3, label: 'C' },
      { name: 'b', count: 6, over: 4 },
    ],
    floor: 5,
  })
  expect(mergeSketches(one, other, 1)).toEqual({ items: [{ name: 'a', count: 12, over: 1, label: 'A' }], floor: 9 })
  expect(
    mergeSketches(NO_SKETCH, { items: [{ name: 'a', count: 1, over: 0, label: 'new' }], floor: 0 }, 1).items[0],
  ).toEqual({
    name: 'a',
    count: 1,
    over: 0,
    label: 'new',
  })
  const labelled = { items: [{ name: 'a', count: 1, over: 0, label: 'new' }], floor: 0 }
  expect(mergeSketches(one, labelled, 1).items[0]?.label).toBe('new')
})

test('truncateSketch() keeps the most frequent, of as frequent ones those that come first', () => {
  const items = ['c', 'a', 'd', 'b'].map((name) => ({ name, count: name === 'd' ? 2 : 1, over: 0 }))
  const names = ({ items }: { items: readonly { name: string }[] }) => items.map(({ name }) => name)
  expect(names(truncateSketch([...items], 0, 9))).toEqual(['d', 'a', 'b', 'c'])
  const two = truncateSketch([...items], 0, 2)
  expect([names(two), two.floor]).toEqual([['d', 'a'], 1])
  expect(truncateSketch([...items], 7, 2).floor).toBe(7)
  expect(truncateSketch([...items], 0, 4).floor).toBe(0)
})

test('readSketch() reads what writeSketch() writes, a label that was cut, and nothing else', () => {
  const sketch = {
    items: [
      { name: 'a', count: 12, over: 1, label: 'ä b' },
      { name: 'b', count: 3, over: 10 },
    ],
    floor: 25,
  }
  expect(writeSketch(sketch)).toBe('25\na 12 1 %C3%A4%20b\nb 3 10')
  expect(readSketch(writeSketch(sketch))).toEqual(sketch)
  expect(readSketch('0\na 1 0 %C3')?.items).toEqual([{ name: 'a', count: 1, over: 0, label: '%C3' }])
  expect(readSketch('0')).toEqual(NO_SKETCH)
  expect(Object.keys(readSketch('0\na 1 0')?.items[0] ?? {})).toEqual(['name', 'count', 'over'])
  for (const text of [
    ...['', 'x', '-1', '1x', 'x1', '0\n', '0\na', '0\na 1', '0\na 1 ', '0\n a 1 0', '0\na x 0', '0\na 1 x'],
    ...[
      '0\na 1 0 ',
      '0\na 1 0 b c',
      '0\na 1 0 %',
      '0\na 1 0 %C',
      '0\na 1 0 %zz',
      '0\na 1 0\nb',
      '0\nb\na 1 0',
      '0\na b 1 0',
    ],
  ]) {
    expect(readSketch(text), text).toBeUndefined()
  }
})

const minute = (startMs: number, hits: number) => ({
  startMs,
  counts: new Map([['hits', hits]]),
  sketches: new Map([['who', { items: [{ name: 'x', count: hits, over: 0 }], floor: 0 }]]),
})

test('addFlush() adds up minutes, hours and totals, and knows what it has added', () => {
  const kept = new Map<string, KeptPeriod>()
  const add = (number: number, ...minutes: ReturnType<typeof minute>[]) => {
    const changed = addFlush({ source: 's', number, minutes }, (period, startMs) => kept.get(`${period} ${startMs}`))
    for (const each of changed) kept.set(`${each.period} ${each.startMs}`, each)
    return changed.map(({ period, startMs, counts }) => [period, startMs, counts.get('hits')])
  }
  const first = add(1, minute(3_600_000, 1), minute(3_660_000, 2))
  expect(first).toEqual([
    ['minute', 3_600_000, 1],
    ['hour', 3_600_000, 3],
    ['total', 0, 3],
    ['minute', 3_660_000, 2],
  ])
  expect(kept.get('minute 3600000')?.added).toEqual(new Map([['s', 1]]))
  for (const name of ['minute 3660000', 'hour 3600000', 'total 0']) expect(kept.get(name)?.added).toEqual(new Map())
  expect(kept.get('hour 3600000')?.sketches.get('who')?.items).toEqual([{ name: 'x', count: 3, over: 0 }])
  expect(kept.get('total 0')?.sketches).toEqual(new Map())
  expect([add(1, minute(3_600_000, 1)), add(0, minute(3_600_000, 1)), add(9)]).toEqual([[], [], []])
  expect(add(2, minute(3_600_000, 4))).toEqual([
    ['minute', 3_600_000, 5],
    ['hour', 3_600_000, 7],
    ['total', 0, 7],
  ])
})

test('findExpiry() keeps a period for its time, and for two hours after a flush at least', () => {
  const [MINUTE, HOUR, DAY] = [60_000, 3_600_000, 86_400_000]
  expect(findExpiry({ period: 'minute', startMs: 0 }, 0)).toBe(MINUTE + 4 * HOUR)
  expect(findExpiry({ period: 'minute', startMs: 0 }, 3 * HOUR)).toBe(5 * HOUR)
  expect(findExpiry({ period: 'hour', startMs: HOUR }, 0)).toBe(2 * HOUR + 60 * DAY)
  expect(findExpiry({ period: 'total', startMs: 0 }, 7)).toBe(61 * DAY + 7)
  expect([findPeriodStart('minute', 119_999), findPeriodStart('hour', HOUR)]).toEqual([MINUTE, HOUR])
  const sums = new Map([['a', 1]])
  addCounts(sums, new Map(Object.entries({ a: 2, b: 3 })))
  expect(sums).toEqual(new Map(Object.entries({ a: 3, b: 3 })))
  const period = { counts: new Map<string, number>(), sketches: new Map() }
  addTo(period, minute(0, 2))
  expect(period).toEqual({ counts: minute(0, 2).counts, sketches: minute(0, 2).sketches })
})

test('MemoryCounters tells what it has by then, of which no caller changes anything', async () => {
  const counters = new MemoryCounters(() => 0)
  expect([await counters.readTotals(), await counters.read('minute', 0, 60_000)]).toEqual([new Map(), []])
  await counters.add({ source: 's', number: 1, minutes: [minute(0, 2)] })
  const [before] = await counters.read('minute', 0, 60_000)
  const totals = await counters.readTotals()
  await counters.add({ source: 's', number: 2, minutes: [minute(0, 2)] })
  expect([before?.counts.get('hits'), totals.get('hits')]).toEqual([2, 2])
  expect(before?.sketches.get('who')?.items[0]?.count).toBe(2)
})

test('updateDocument() waits longer after each conflict, up to five seconds', async () => {
  vi.useFakeTimers()
  const random = vi.spyOn(Math, 'random').mockReturnValue(0.5)
  onTestFinished(() => {
    random.mockRestore()
    vi.useRealTimers()
  })
  const documents = new MemoryDocuments(() => 0)
  const change = { text: '{}', actor: '', comment: '' }
  const atMs: number[] = []
  const writing = updateDocument(documents, async ({ version }) => {
    atMs.push(Date.now())
    await documents.write({ ...change, expectedVersion: version })
    return change
  })
  await vi.runAllTimersAsync()
  expect(await writing).toMatchObject({ kind: 'conflict' })
  const pauses = atMs.slice(1).map((ms, index) => ms - (atMs[index] ?? 0))
  expect(pauses).toEqual([10, 20, 40, 80, 160, 320, 640, 1_280, 2_500, 2_500, 2_500])
})

test('createNextVersion() tells versions apart by number and name, and takes only an object', () => {
  const write = { text: '{"a":1}', expectedVersion: 1, actor: 'me', comment: 'why' }
  const next = (overrides: object, id = 'x') => createNextVersion({ ...write, ...overrides }, { version: 1, id }, 5)
  expect(next({})).toEqual({
    version: 2,
    id: expect.any(String),
    atMs: 5,
    actor: 'me',
    comment: 'why',
    text: '{"a":1}',
  })
  expect(next({ expectedId: 'x' })).toMatchObject({ version: 2 })
  for (const other of [{ expectedId: 'y' }, { expectedId: '' }, { expectedVersion: 0 }]) {
    expect(next(other)).toEqual({ kind: 'conflict', version: 1 })
  }
  for (const text of ['', '[]', '{', ' {}', '1', 'null'])
    expect(next({ text })).toEqual({ kind: 'malformed', version: 1 })
  expect([cutNote('a'.repeat(501)).length, cutNote('ab')]).toEqual([500, 'ab'])
  const [one, other] = [
    { version: 1, id: 'x' },
    { version: 1, id: 'y' },
  ]
  expect([
    isSameVersion(one, { ...one }),
    isSameVersion(one, other),
    isSameVersion(one, { version: 2, id: 'x' }),
  ]).toEqual([true, false, false])
  expect([isSameVersion(undefined, undefined), isSameVersion(one, undefined), isSameVersion(undefined, one)]).toEqual([
    true,
    false,
    false,
  ])
  expect(isSameVersion(NO_DOCUMENT, { version: 0, id: '' })).toBe(true)
})

test('ChargeTimes knows the time of each charge, the earlier of two, and else that of its decision', () => {
  const times = new ChargeTimes()
  const [a, b] = ['a', 'b'].map((key) => createCharge('quota', [{ limit: 1, windowMs: 1 }], { key })) as [
    ReturnType<typeof createCharge>,
    ReturnType<typeof createCharge>,
  ]
  times.remember('a', 10, 7)
  times.remember('a', 10, 8)
  expect([times.get('a', 10), times.get('a', 11), times.get('b', 10)]).toEqual([7, 11, 10])
  times.remember('a', 10, 6)
  times.remember('b', 10, 12)
  expect([times.get('a', 10), times.get('b', 10)]).toEqual([6, 12])
  const units = 1
  expect(times.findEarliest([{ charge: b, units }], 10)).toBe(12)
  expect(
    times.findEarliest(
      [
        { charge: b, units },
        { charge: a, units },
      ],
      10,
    ),
  ).toBe(6)
  // That of the decision itself takes no room.
  times.remember('b', 10, 10)
  expect(times.get('b', 10)).toBe(12)
  for (let n = 0; n < 10_001; n++) times.remember(`other ${n}`, 10, 10)
  expect(times.get('a', 10)).toBe(6)
})

test('ExpiringStates forgets a state when its time is over, and the oldest beyond its bound', () => {
  const states = new ExpiringStates(3)
  states.advanceTo(1_000)
  states.write('p=a', 1, 100)
  states.write('q=a', 2, 100)
  states.write('a', 3, 100)
  expect([states.read('p=a'), states.read('q=a'), states.read('a'), states.read('b'), states.size]).toEqual([
    1,
    2,
    3,
    undefined,
    3,
  ])
  states.advanceTo(1_100)
  expect(states.read('p=a')).toBe(1)
  // Without a time, what it had stays.
  states.write('p=a', 4)
  states.write('b', 5, 100)
  expect([states.read('q=a'), states.read('p=a'), states.size]).toEqual([undefined, 4, 3])
  states.advanceTo(1_101)
  expect([states.read('p=a'), states.read('a'), states.read('b'), states.size]).toEqual([undefined, undefined, 5, 1])
  // It is gone, even if the clock steps back.
  states.advanceTo(1_000)
  expect(states.read('p=a')).toBeUndefined()
  states.write('b', 6, 0)
  states.write('c', 7, 0)
  expect([states.read('b'), states.size]).toEqual([undefined, 0])
  states.write('c', 7, 5)
  states.write('c', 8, -1)
  states.delete('none')
  expect(states.size).toBe(0)
  // What has no time is over at once.
  states.write('c', 7)
  expect([states.read('c'), states.size]).toEqual([undefined, 0])
  states.write('d', 9, 5)
  states.delete('d')
  expect([states.read('d'), states.size, states.use.decisions]).toEqual([undefined, 0, 4])
})
