/** An object's alarm, which deletes what has run out, among calls that come at the same moment. */
import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import { afterEach, expect, test, vi } from 'vitest'
import { LimitObject, type ObjectEnvironment } from '../../src/store/durable-object/limit-object.ts'
import { chargeOf } from '../support/charges.ts'
import { expectProperty } from '../support/property.ts'

const RULE = chargeOf('quota', [{ limit: 5, windowMs: 1_000 }])
const START_MS = 1_700_000_000_000

afterEach(() => vi.restoreAllMocks())

/** What an object is given, in SQLite, as its platform does it: what is asked for is done at once. */
class Machine {
  readonly #database = new DatabaseSync(':memory:')
  alarmAtMs: number | null = null
  readonly storage = {
    sql: {
      exec: (query: string, ...values: readonly (string | number)[]) =>
        this.#database.prepare(query).all(...values) as Record<string, unknown>[],
    },
    setAlarm: async (atMs: number) => {
      this.alarmAtMs = atMs
    },
    getAlarm: async () => this.alarmAtMs,
    deleteAll: async () => {
      this.#database.exec('DROP TABLE IF EXISTS kept')
      this.alarmAtMs = null
    },
    transactionSync: <T>(work: () => T) => work(),
  }

  open(): LimitObject {
    return new LimitObject(this, {} as ObjectEnvironment)
  }
}

async function granted(object: LimitObject, action: 'take' | 'peek'): Promise<{ charged: number; remaining: number }> {
  const body = JSON.stringify(['reserve', { action, permits: 1, charge: RULE }])
  const answer = await object.fetch(new Request('https://object', { method: 'POST', body }))
  const { charged, usage } = (await answer.json()) as { charged: number; usage: { remaining: number }[] }
  return { charged, remaining: usage[0]?.remaining ?? Number.NaN }
}

test('what is charged while the alarm deletes what was over before stays, whatever comes first', async () => {
  const anyTurns = fc.integer({ min: 0, max: 12 })
  await expectProperty(
    fc.asyncProperty(
      fc.boolean(),
      anyTurns,
      fc.array(anyTurns, { minLength: 1, maxLength: 4 }),
      async (isCold, alarmTurns, callTurns) => {
        const now = vi.spyOn(Date, 'now').mockReturnValue(START_MS)
        const machine = new Machine()
        const before = machine.open()
        await granted(before, 'take')
        now.mockReturnValue(START_MS + 600_000)
        const object = isCold ? machine.open() : before
        const after = async <T>(turns: number, work: () => Promise<T>) => {
          for (let i = 0; i < turns; i++) await undefined
          return work()
        }
        const alarm = after(alarmTurns, () => object.alarm())
        const calls = await Promise.all(callTurns.map((turns) => after(turns, () => granted(object, 'take'))))
        await alarm
        const charged = calls.reduce((sum, { charged }) => sum + charged, 0)
        expect(charged).toBe(callTurns.length)
        // Also for one that has restarted, and it will be deleted in its turn.
        for (const one of [object, machine.open()]) expect((await granted(one, 'peek')).remaining).toBe(5 - charged)
        expect(machine.alarmAtMs).toBeGreaterThan(START_MS + 600_000)
      },
    ),
    150,
  )
})
