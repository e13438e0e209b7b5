/** Whatever charges come in one question, all are taken or none: over memory, and over Redis. */
import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, inject, test } from 'vitest'
import { openDecisions } from '../support/decisions.ts'
import { expectProperty } from '../support/property.ts'

/** Windows of an hour: none turns over during a test. */
const POLICIES = [
  { name: 'window', limits: '7/1h' },
  { name: 'two', limits: '5/1h, 8/1d' },
]
const LIMITS: Readonly<Record<string, number>> = { window: 7, two: 5, '6/2h': 6, '4/3h, 9/4h': 4 }

const STORES: Record<string, () => Readonly<Record<string, unknown>>> = {
  memory: () => ({ STORE: 'memory' }),
  Redis: () => ({
    UPSTASH_REDIS_REST_URL: inject('redisRestUrl'),
    UPSTASH_REDIS_REST_TOKEN: inject('redisRestToken'),
  }),
}

const charge = fc.record({
  limits: fc.constantFrom(...Object.keys(LIMITS)),
  identity: fc.constantFrom('a', 'b'),
  cost: fc.integer({ min: 1, max: 4 }),
})
const question = fc.record({
  action: fc.constantFrom('take', 'take', 'take', 'take-up-to', 'peek'),
  permits: fc.integer({ min: 1, max: 3 }),
  charges: fc.uniqueArray(charge, {
    minLength: 1,
    maxLength: 5,
    selector: ({ limits, identity }) => `${limits} ${identity}`,
  }),
})

describe.each(Object.keys(STORES))('/_sluice/decide over %s', (store) => {
  test('takes of all charges of a question or of none', async () => {
    const open = (keyPrefix: string) => openDecisions({ ...STORES[store]?.(), POLICIES, KEY_PREFIX: keyPrefix })
    const decisions = await open(randomUUID())
    await expectProperty(
      fc.asyncProperty(fc.array(question, { minLength: 1, maxLength: 25 }), async (questions) => {
        const run = randomUUID()
        const used = new Map<string, number>()
        for (const { action, permits, charges } of questions) {
          const places = charges.map(({ limits, identity, cost }) => {
            const key = `${limits} ${identity}`
            return { key, cost, left: (LIMITS[limits] as number) - (used.get(key) ?? 0) }
          })
          const wanted = action === 'take-up-to' ? permits : 1
          const fitting = Math.min(wanted, ...places.map(({ cost, left }) => Math.floor(left / cost)))
          const taken = action === 'peek' ? 0 : fitting
          const { body } = await decisions.decide({
            action,
            ...(action === 'take-up-to' && { permits }),
            charges: charges.map(({ limits, identity, cost }) => ({
              ...(limits.includes('/') ? { limits } : { policy: limits }),
              identity: [run, identity],
              cost,
            })),
          })
          expect(body.granted).toBe(action === 'take-up-to' ? fitting : fitting > 0)
          for (const { key, cost } of places) used.set(key, (used.get(key) ?? 0) + taken * cost)
          const reported = body.limits as readonly { name: string; remaining: number; charge: number }[]
          for (const { name, remaining, charge } of reported.filter(({ name }) => /-(?:1h|2h|3h)$/.test(name))) {
            const { left, cost } = places[charge] as (typeof places)[number]
            expect([name, remaining]).toEqual([name, left - taken * cost])
          }
          if (fitting > 0) expect(new Set(reported.map(({ charge }) => charge)).size).toBe(charges.length)
        }
      }),
      400,
    )
  })
})
