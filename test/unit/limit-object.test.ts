/// <reference types="@cloudflare/vitest-plugin/types" />
import { abortAllDurableObjects, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { expect, test } from 'vitest'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import { sleep } from '../../src/core/runtime/sleep.ts'
import { DurableObjectStore } from '../../src/core/store/durable-object/durable-object-store.ts'
import { LimitMachine } from '../../src/core/store/durable-object/limit-machine.ts'
import { openObjects } from '../../src/core/store/durable-object/objects.ts'
import { SqlRows } from '../../src/core/store/durable-object/rows.ts'
import { createCharge, EVERY_ALGORITHM, EXACT_ALGORITHMS, take } from '../support/charges.ts'

const namespace = env.LIMITS
const objects = openObjects(namespace)
const store = new DurableObjectStore({ objects, timeoutMs: 60_000 })
const createStub = ({ key }: StoreCharge) => namespace.get(namespace.idFromName(key))

async function left(charge: StoreCharge): Promise<number | undefined> {
  return (await store.decide(take([charge], { action: 'peek' }))).usage[0]?.[0]?.remaining
}

/** Counts the rows that a database writes, as Cloudflare bills them. */
class Meter {
  rows = 0
  readonly sql: SqlStorage

  constructor(sql: SqlStorage) {
    const exec = (...args: Parameters<SqlStorage['exec']>) => {
      const cursor = sql.exec(...args)
      this.rows += cursor.rowsWritten
      return cursor
    }
    this.sql = { exec } as SqlStorage
  }
}

test.each(EVERY_ALGORITHM)('a decision by %s writes one row, and seldom another, whatever the window holds', (name) => {
  const count = name === 'concurrency' ? 500 : 4_000
  const charge = createCharge(name, [{ limit: 9_000, windowMs: 100_000 }])
  return runInDurableObject(createStub(charge), (_, state) => {
    const meter = new Meter(state.storage.sql)
    const machine = new LimitMachine(new SqlRows(meter.sql))
    const startUs = Date.now() * 1000
    let most = 0
    const decide = (i: number) => {
      const shared = { id: i + 1, siblings: ['sibling'], precedesNewIdentities: false }
      const requested = {
        action: 'take',
        permits: 1,
        charge: { ...charge, slot: i },
        ...(i % 2 === 0 && { shared }),
      } as const
      expect(machine.reserve(requested, startUs + i * 2_000)?.charged).toBe(1)
      if (i % 2 === 0) machine.close({ id: i + 1, permits: 1 }, startUs + i * 2_000)
    }
    // Making the table writes rows of its own.
    decide(0)
    const before = meter.rows
    for (let i = 1; i < count; i++) {
      const written = meter.rows
      decide(i)
      most = Math.max(most, meter.rows - written)
    }
    // A slot is a row of its own.
    const rows = name === 'concurrency' ? 2 : 1
    expect(most).toBeLessThanOrEqual(rows + 2)
    expect((meter.rows - before) / (count - 1)).toBeLessThan(rows + 0.02)
  })
})

test.each(EVERY_ALGORITHM)('what %s has charged outlives an eviction and a crash', async (name) => {
  const charge = createCharge(name, [{ limit: 10, windowMs: name === 'fixed-window' ? 2_000_000_000_000 : 3_600_000 }])
  const alongside = createCharge('quota', [{ limit: 10, windowMs: 3_600_000 }])
  await store.decide(take([{ ...charge, cost: 3 }]))
  await evictDurableObject(createStub(charge))
  expect(await left(charge)).toBe(7)
  await store.decide(take([charge, alongside]))
  await abortAllDurableObjects()
  expect(await left(charge)).toBe(6)
  expect(await left(alongside)).toBe(9)
})

test.each(EXACT_ALGORITHMS)(
  'what %s admits is dated at the end of the millisecond that the clock shows',
  async (name) => {
    const windowMs = 3_600_000
    const charge = createCharge(name, [{ limit: 2, windowMs }])
    const charged = await store.decide(take([charge]))
    const looked = await store.decide(take([charge], { action: 'peek' }))
    expect(looked.nowMs + (looked.usage[0]?.[0]?.resetMs ?? 0) - windowMs).toBe(charged.nowMs + 1)
  },
)

test('a reset of a penalty is kept, though nothing was ever charged here', async () => {
  const charge = {
    ...createCharge('sliding-window', [{ limit: 1, windowMs: 3_600_000 }]),
    cost: 2,
    penalty: { durationMs: 7_200_000, after: 1 },
  }
  const findPenalty = async () => (await store.decide(take([charge], { action: 'peek' }))).usage[0]?.[0]?.penaltyMs
  await store.decide(take([charge]))
  expect(await findPenalty()).toBeGreaterThan(7_000_000)
  await store.delete([charge.key])
  await evictDurableObject(createStub(charge))
  expect((await findPenalty()) ?? 0).toBe(0)
})

test('an alarm deletes what has run out, and nothing stays', async () => {
  const charge = createCharge('token-bucket', [{ limit: 1, windowMs: 1 }])
  await store.decide(take([charge]))
  await sleep(5)
  expect(await runDurableObjectAlarm(createStub(charge))).toBe(true)
  await runInDurableObject(createStub(charge), async (_, { storage }) => {
    expect(
      storage.sql.exec("SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'").toArray(),
    ).toEqual([])
    expect(await storage.getAlarm()).toBe(null)
  })
  expect((await store.decide(take([charge]))).granted).toBe(1)
})

test('an alarm leaves what is still in use, and another follows', async () => {
  const charge = createCharge('quota', [{ limit: 5, windowMs: 3_600_000 }])
  await store.decide(take([charge]))
  expect(await runDurableObjectAlarm(createStub(charge))).toBe(true)
  expect(await left(charge)).toBe(4)
  expect(await runInDurableObject(createStub(charge), (_, { storage }) => storage.getAlarm())).toBeGreaterThan(
    Date.now() + 3_000_000,
  )
})

test('an object that is only looked at keeps nothing', async () => {
  const charge = createCharge('sliding-window', [{ limit: 1, windowMs: 1_000 }])
  await left(charge)
  await runInDurableObject(createStub(charge), async (_, { storage }) => {
    expect(storage.sql.exec("SELECT 1 FROM sqlite_master WHERE name = 'kept'").toArray()).toEqual([])
  })
})

// Both wait, and no other test may end their objects meanwhile.
test.concurrent('what a decider has reserved and never closed lapses, if a sibling has not granted it', {
  tags: ['slow'],
}, async () => {
  const [held, free] = [
    createCharge('quota', [{ limit: 3, windowMs: 3_600_000 }]),
    createCharge('quota', [{ limit: 3, windowMs: 3_600_000 }]),
  ]
  const reserve = (charge: StoreCharge, id: number, sibling: StoreCharge) => {
    const shared = { id, siblings: [sibling.key], precedesNewIdentities: false }
    return objects.reserve(charge.key, { action: 'take', permits: 1, charge, shared })
  }
  // One reached both objects, the other one of them.
  await Promise.all([reserve(held, 1, free), reserve(free, 1, held), reserve(held, 2, free)])
  expect(await left(held)).toBe(1)
  await expect.poll(() => left(held), { timeout: 60_000, interval: 500 }).toBe(2)
  expect(await left(free)).toBe(2)
  // What was given up cannot be granted later.
  expect(await reserve(free, 2, held)).toMatchObject({ charged: 0, isVoid: true })
})

test.concurrent('what an object knew before it failed is never written over what it has counted since', {
  tags: ['slow'],
}, async () => {
  const [charge, sibling] = [1, 2].map(() => createCharge('quota', [{ limit: 5, windowMs: 3_600_000 }])) as [
    StoreCharge,
    StoreCharge,
  ]
  const shared = { id: 1, siblings: [sibling.key], precedesNewIdentities: false }
  await objects.reserve(charge.key, { action: 'take', permits: 1, charge, shared })
  await runInDurableObject(createStub(charge), async (object) => {
    const body = JSON.stringify(['reserve', null])
    const failing = (object as unknown as { fetch(request: Request): Promise<Response> }).fetch(
      new Request('https://object', { method: 'POST', body }),
    )
    await expect(failing).rejects.toThrow(TypeError)
  })
  for (let n = 0; n < 3; n++) await store.decide(take([charge]))
  // Until the sibling has been asked, which has not granted it.
  await sleep(7_000)
  await evictDurableObject(createStub(charge))
  expect(await left(charge)).toBeLessThanOrEqual(2)
})

test('an answer that is held back comes when what others have reserved is given back, or when it has taken long', async () => {
  const charge = createCharge('quota', [{ limit: 1, windowMs: 3_600_000 }])
  const reserve = (id: number, patienceMs: number) => {
    const shared = { id, siblings: ['sibling'], precedesNewIdentities: false }
    return objects.reserve(charge.key, { action: 'take', permits: 1, charge, shared, patienceMs })
  }
  expect((await reserve(5, 60_000)).charged).toBe(1)
  expect((await reserve(6, 1)).charged).toBe(0)
  const waiting = reserve(4, 60_000)
  await reserve(7, 1)
  await objects.close(charge.key, { id: 5, permits: 0 })
  expect((await waiting).charged).toBe(1)
})
