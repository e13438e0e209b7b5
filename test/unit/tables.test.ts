/// <reference types="@cloudflare/vitest-plugin/types" />
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { expect, test } from 'vitest'
import { StoreError } from '../../src/core/model/store.ts'
import { findPeriodStart, KEPT_MS, PERIOD_MS, type Period, TOTALS_KEPT_MS } from '../../src/core/store/counters.ts'
import { NO_DOCUMENT } from '../../src/core/store/documents.ts'
import {
  openCounterTable,
  openObjectCounters,
  openObjectDocuments,
  toPlain,
} from '../../src/core/store/durable-object/tables.ts'

const namespace = env.LIMITS
const findStub = (name: string) => namespace.get(namespace.idFromName(name))
const openDocuments = (key: string) => openObjectDocuments({ namespace, key, timeoutMs: 60_000 })

const openCounters = (keyPrefix: string) => openObjectCounters({ namespace, keyPrefix, timeoutMs: 60_000 })

/** A minute in which this much was counted. */
function minute(startMs: number, names = 1): Period {
  const counts = new Map(Array.from({ length: names }, (_, index) => [`count ${index}`, 1]))
  const items = [{ name: 'caller', count: 1, over: 0 }]
  return { startMs, counts, sketches: new Map([['refused', { items, floor: 0 }]]) }
}

function listTables(name: string): Promise<unknown[]> {
  return runInDurableObject(findStub(name), (_, { storage }) =>
    storage.sql
      .exec("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\'")
      .toArray(),
  )
}

test('a document outlives an eviction, and has no time to live', async () => {
  const key = `${crypto.randomUUID()}:rules`
  await openDocuments(key).write({ text: '{"n":1}', expectedVersion: 0, actor: 'test', comment: 'test' })
  await evictDurableObject(findStub(key))
  expect(await openDocuments(key).read()).toMatchObject({ version: 1, text: '{"n":1}' })
  expect(await runInDurableObject(findStub(key), (_, { storage }) => storage.getAlarm())).toBe(null)
})

test('an object whose document is only looked at keeps nothing', async () => {
  const key = `${crypto.randomUUID()}:rules`
  expect(await openDocuments(key).read()).toEqual(NO_DOCUMENT)
  expect(await openDocuments(key).readHistory()).toEqual([])
  expect(await listTables(key)).toEqual([])
})

test('what is counted is looked through soon, also where what was left the last time lasts for weeks', async () => {
  const prefix = crypto.randomUUID()
  const startMs = findPeriodStart('minute', Date.now())
  const stub = findStub(`${prefix}:statistics`)
  await openCounters(prefix).add({ source: 'a', number: 1, minutes: [minute(startMs)] })
  await runInDurableObject(stub, (_, { storage }) => storage.setAlarm(Date.now() + KEPT_MS.hour))
  await openCounters(prefix).add({ source: 'a', number: 2, minutes: [minute(startMs)] })
  const alarmAtMs = await runInDurableObject(stub, (_, { storage }) => storage.getAlarm())
  expect(alarmAtMs).toBeLessThan(Date.now() + KEPT_MS.minute)
})

test('what is counted outlives an eviction', async () => {
  const prefix = crypto.randomUUID()
  const startMs = findPeriodStart('minute', Date.now())
  await openCounters(prefix).add({ source: 'a', number: 1, minutes: [minute(startMs)] })
  await evictDurableObject(findStub(`${prefix}:statistics`))
  await openCounters(prefix).add({ source: 'a', number: 1, minutes: [minute(startMs)] })
  await openCounters(prefix).add({ source: 'a', number: 2, minutes: [minute(startMs)] })
  expect(await openCounters(prefix).read('minute', startMs, startMs + 1)).toMatchObject([
    { startMs, counts: new Map([['count 0', 2]]) },
  ])
})

test('a flush writes three rows, however many counts it has, and one more for each further minute', () => {
  const name = `${crypto.randomUUID()}:statistics`
  return runInDurableObject(findStub(name), (_, { storage: { sql } }) => {
    let rows = 0
    const exec = (...args: Parameters<SqlStorage['exec']>) => {
      const cursor = sql.exec(...args)
      rows += cursor.rowsWritten
      return cursor
    }
    const startMs = findPeriodStart('hour', Date.now())
    const written = (number: number, ...minutes: Period[]) => {
      rows = 0
      openCounterTable({ exec }, startMs).add({ source: 'a', number, minutes: minutes.map(toPlain) })
      return rows
    }
    // Making the table writes rows of its own.
    written(1, minute(startMs))
    expect(written(2, minute(startMs, 900))).toBe(3)
    expect(written(3, minute(startMs), minute(startMs + PERIOD_MS.minute))).toBe(4)
    expect(written(3, minute(startMs), minute(startMs + PERIOD_MS.minute))).toBe(0)
  })
})

test('an alarm deletes what nobody can read any more, and nothing stays', async () => {
  const prefix = crypto.randomUUID()
  const name = `${prefix}:statistics`
  const counters = openCounters(prefix)
  const nowMs = findPeriodStart('hour', Date.now())
  await counters.add({ source: 'a', number: 1, minutes: [minute(nowMs)] })
  const left = () =>
    runInDurableObject(findStub(name), (_, { storage }) =>
      storage.sql
        .exec('SELECT period FROM counted ORDER BY expiresAtMs')
        .toArray()
        .map(({ period }) => period),
    )
  expect(await runDurableObjectAlarm(findStub(name))).toBe(true)
  expect(await left()).toEqual(['minute', 'hour', 'total'])
  const nextMs = await runInDurableObject(findStub(name), (_, { storage }) => storage.getAlarm())
  expect(nextMs).toBe(nowMs + PERIOD_MS.minute + KEPT_MS.minute + 1)
  const sweepAt = (atMs: number) =>
    runInDurableObject(findStub(name), (_, { storage }) => openCounterTable(storage.sql, atMs).sweep())
  await sweepAt(Date.now() + KEPT_MS.minute + 2 * PERIOD_MS.minute)
  expect(await left()).toEqual(['hour', 'total'])
  await sweepAt(nowMs + KEPT_MS.hour + PERIOD_MS.hour + 1)
  expect(await left()).toEqual(['total'])
  await sweepAt(Date.now() + TOTALS_KEPT_MS + 1)
  await runDurableObjectAlarm(findStub(name))
  expect(await listTables(name)).toEqual([])
  expect(await runInDurableObject(findStub(name), (_, { storage }) => storage.getAlarm())).toBe(null)
})

test('an object whose counts are only looked at keeps nothing', async () => {
  const prefix = crypto.randomUUID()
  expect((await openCounters(prefix).readTotals()).size).toBe(0)
  expect(await listTables(`${prefix}:statistics`)).toEqual([])
})

test('an object that fails, or is silent, is a StoreError that repeats nothing', async () => {
  const failing = { idFromName: () => 0, get: () => ({ fetch: () => Promise.reject(new Error('secret')) }) }
  const silent = { idFromName: () => 0, get: () => ({ fetch: () => new Promise<never>(() => {}) }) }
  for (const namespace of [failing, silent]) {
    const error = await openObjectDocuments({ namespace, key: 'x', timeoutMs: 10 })
      .read()
      .catch((error) => error)
    expect(error).toBeInstanceOf(StoreError)
    expect(error.message).not.toContain('secret')
  }
})
