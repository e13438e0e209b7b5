/** An object's alarm, which deletes what has run out, among calls that come at the same moment. */
import fc from 'fast-check'
import { afterEach, expect, test, vi } from 'vitest'
import type { LimitObject } from '../../src/core/store/durable-object/limit-object.ts'
import type { ObjectVote } from '../../src/core/store/durable-object/objects.ts'
import { createCharge } from '../support/charges.ts'
import { callLocal, LocalObject } from '../support/local-object.ts'
import { expectProperty } from '../support/property.ts'

const RULE = createCharge('quota', [{ limit: 5, windowMs: 1_000 }])
const START_MS = 1_700_000_000_000

afterEach(() => vi.restoreAllMocks())

async function granted(object: LimitObject, action: 'take' | 'peek'): Promise<{ charged: number; remaining: number }> {
  const { charged, usage } = await callLocal<ObjectVote>(object, 'reserve', { action, permits: 1, charge: RULE })
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
        const machine = new LocalObject()
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
