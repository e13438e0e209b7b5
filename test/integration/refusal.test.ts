import fc from 'fast-check'
import { expect, test } from 'vitest'
import { START_MS } from '../support/arbitraries.ts'
import { createCharge, EVERY_ALGORITHM, TIERED_ALGORITHMS, take } from '../support/charges.ts'
import { shareRedis } from '../support/own-redis.ts'
import { expectProperty } from '../support/property.ts'
import { ScriptStore } from '../support/script-store.ts'

const redis = shareRedis()

const LIMITS = [
  { limit: 10, windowMs: 1_000 },
  { limit: 120, windowMs: 60_000 },
  { limit: 240, windowMs: 3_600_000 },
]

test.each(TIERED_ALGORITHMS)(
  '%s: a caller refused by the hourly limit has spent nothing of the second and minute limits',
  async (name) => {
    const script = new ScriptStore(redis)
    const charge = createCharge(name, LIMITS)
    // Begins with an hour of the clock, so that fixed windows do not begin anew on the way.
    let nowMs = Math.ceil(START_MS / 3_600_000) * 3_600_000
    for (let i = 0; i < 240; i++, nowMs += 1_000) {
      expect((await script.decide(take([charge]), nowMs * 1000)).granted).toBe(1)
    }
    nowMs += 60_000
    const before = await redis.dump(charge.key)
    for (let i = 0; i < 20; i++) {
      const { granted, usage } = await script.decide(take([charge]), nowMs * 1000)
      expect(granted).toBe(0)
      expect(usage[0]?.map(({ remaining }) => remaining)).toEqual([10, 120, 0])
    }
    expect(await redis.dump(charge.key)).toEqual(before)
  },
)

test.each(EVERY_ALGORITHM)('%s refuses, and not a byte of any other charge is changed', async (name) => {
  const script = new ScriptStore(redis)
  const charges = EVERY_ALGORITHM.map((other) =>
    createCharge(other, [{ limit: other === name ? 2 : 100, windowMs: 60_000 }]),
  )
  const dumps = () => Promise.all(charges.map(({ key }) => redis.dump(key)))
  for (let i = 0; i < 2; i++) expect((await script.decide(take(charges), START_MS * 1000)).granted).toBe(1)
  const before = await dumps()
  expect((await script.decide(take(charges), START_MS * 1000)).granted).toBe(0)
  expect(await dumps()).toEqual(before)
})

test('sliding-window finds the exact moment for any cost, however its entries lie in time', async () => {
  const script = new ScriptStore(redis)
  const windowMs = 600_000
  const gapsMs = fc.array(
    fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 3 }), fc.integer({ min: 0, max: 2_000 })),
    {
      minLength: 30,
      maxLength: 250,
      size: 'max',
    },
  )
  await expectProperty(
    fc.asyncProperty(
      gapsMs,
      fc.integer({ min: 1, max: 3 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      async (gaps, units, share) => {
        const limit = gaps.length * units
        const charge = createCharge('sliding-window', [{ limit, windowMs }])
        let ms = START_MS
        const dates = gaps.map((gapMs) => (ms += gapMs))
        for (const [index, date] of dates.entries()) {
          await redis.xAdd(charge.key, `${date}-${(index + 1) * units}`, { [windowMs]: `${units}` })
        }
        const cost = 1 + Math.floor(share * (limit - 1))
        const { usage } = await script.peek(take([{ ...charge, cost }]), ms * 1000)
        // With every unit used, the entry that completes the cost must leave.
        const last = dates[Math.ceil(cost / units) - 1] as number
        expect(usage[0]?.[0]?.retryAfterMs).toBe(last + windowMs - ms)
      },
    ),
    200,
  )
})
