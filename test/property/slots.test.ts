import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import { START_MS } from '../support/arbitraries.ts'
import { createCharge, take } from '../support/charges.ts'
import { TIMED_STORES } from '../support/timed-stores.ts'

// A network that delays, reorders, repeats and loses what an isolate sends to a store, and a store that is unavailable at times.

/** No slot of a test lasts so long by itself. */
const WINDOW_MS = 3_600_000
/** A call arrives within a minute of what overtook it, or never. */
const LONGEST_DELAY_MS = 59_000

const anyDelay = fc.oneof(fc.integer({ min: 0, max: 50 }), fc.integer({ min: 0, max: LONGEST_DELAY_MS }))
const anyRequest = fc.record({
  sentMs: fc.integer({ min: 0, max: 1_000 }),
  cost: fc.integer({ min: 1, max: 3 }),
  /** Undefined: the call is lost. */
  takeDelayMs: fc.option(anyDelay, { nil: undefined }),
  /** The isolate hears whether it got its slots. */
  isAnswered: fc.boolean(),
  heldMs: fc.integer({ min: 0, max: 500 }),
  renewals: fc.array(fc.record({ afterMs: fc.nat(500), delayMs: anyDelay }), { maxLength: 2 }),
  /** Sent in vain, lost or not, before the one that is answered. */
  repeats: fc.array(fc.option(anyDelay, { nil: undefined }), { maxLength: 3 }),
  releaseDelayMs: anyDelay,
  /** Never released: it is held to the end. */
  isHeld: fc.boolean(),
})

interface Arrival {
  readonly atMs: number
  run(nowMs: number): Promise<void>
}

describe.each(TIMED_STORES)('%s', (_name, { open, expectProperty }) => {
  test('whatever the order in which calls arrive, what is given back is free and what is held is taken', async () => {
    await expectProperty(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 8 }),
        fc.array(anyRequest, { maxLength: 10 }),
        async (limit, requests) => {
          const shared = createCharge('concurrency', [{ limit, windowMs: WINDOW_MS }])
          const arrivals: Arrival[] = []
          const held = new Set<StoreCharge>()
          const returned = new Set<StoreCharge>()

          const store = open()
          const takenAt = async (nowMs: number) => {
            const units = await store.heldUnits(shared, nowMs * 1000)
            return {
              by: ({ slot = 0 }: StoreCharge) => units.get(slot) ?? 0,
              all: [...units.values()].reduce((a, b) => a + b, 0),
            }
          }

          for (const {
            sentMs,
            cost,
            takeDelayMs,
            isAnswered,
            heldMs,
            renewals,
            repeats,
            releaseDelayMs,
            isHeld,
          } of requests) {
            const request = take([{ ...shared, cost: Math.min(cost, limit) }])
            const charge = request.charges[0] as StoreCharge
            const isKnown = isAnswered && takeDelayMs !== undefined
            const atMs = START_MS + sentMs + (takeDelayMs ?? 0)
            if (takeDelayMs !== undefined) {
              arrivals.push({
                atMs,
                async run(nowMs) {
                  const { granted } = await store.decide(request, nowMs * 1000)
                  if (isKnown && granted === 1) held.add(charge)
                },
              })
            }
            // Who was answered renews and gives back; who was not gives back at once, and may be ahead of the call itself.
            const releasedMs = isKnown ? atMs + heldMs : START_MS + sentMs
            if (isKnown) {
              for (const { afterMs, delayMs } of renewals) {
                if (afterMs > heldMs && !isHeld) continue
                const run = async (nowMs: number) => {
                  await store.renew([charge], nowMs * 1000)
                }
                arrivals.push({ atMs: atMs + afterMs + delayMs, run })
              }
              if (isHeld) continue
            }
            for (const delayMs of [...repeats, releaseDelayMs]) {
              if (delayMs === undefined) continue
              arrivals.push({
                atMs: releasedMs + delayMs,
                async run(nowMs) {
                  held.delete(charge)
                  returned.add(charge)
                  await store.revoke([{ charge, isKnown }], nowMs * 1000)
                },
              })
            }
          }

          for (const { atMs, run } of arrivals.toSorted((a, b) => a.atMs - b.atMs)) {
            await run(atMs)
            const taken = await takenAt(atMs)
            for (const charge of held) expect(taken.by(charge)).toBe(charge.cost)
            for (const charge of returned) expect(taken.by(charge)).toBe(0)
            expect(taken.all).toBeLessThanOrEqual(limit)
          }
          const units = [...held].reduce((sum, { cost }) => sum + cost, 0)
          const endMs = START_MS + 1_000_000
          expect((await takenAt(endMs)).all).toBe(units)
        },
      ),
      60,
    )
  })

  test('marks of releases go when they have stood for a minute, and with the key', async () => {
    const charge = createCharge('concurrency', [{ limit: 1, windowMs: 1_000 }])
    const store = open()
    const revoke = (slot: number, nowMs: number) =>
      store.revoke([{ charge: { ...charge, slot }, isKnown: false }], nowMs * 1000)
    for (let i = 0; i < 300; i++) await revoke(i, START_MS + i * 1_000)
    const lastMs = START_MS + 299_000
    expect(await store.marks(charge)).toBe(60)
    expect(store.expiresAtMs(charge.key) - lastMs).toBeLessThanOrEqual(120_000)
    expect(store.expiresAtMs(charge.key) - lastMs).toBeGreaterThan(0)
  })
})
