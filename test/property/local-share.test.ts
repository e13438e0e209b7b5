/** What one isolate allows by itself while the store is unavailable: never more than the limits, and never nothing at all. */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { scaleToLocalShare } from '../../src/core/engine/local-share.ts'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { createCharge, EVERY_ALGORITHM, take } from '../support/charges.ts'
import { expectProperty } from '../support/property.ts'

/** Charges of which a request fits into limits that nobody has used, as configurations are. */
const anyFitting: fc.Arbitrary<StoreCharge> = fc
  .record({ cost: fc.integer({ min: 1, max: 20 }), reserved: fc.nat(100), room: fc.oneof(fc.constant(0), fc.nat(100)) })
  .chain(({ cost, reserved, room }) =>
    fc.constantFrom(...EVERY_ALGORITHM).map((algorithm) => {
      const limit = cost + reserved + room
      const burst = algorithm === 'token-bucket' ? { burst: limit } : {}
      return createCharge(algorithm, [{ limit, windowMs: 60_000 }], { cost, reserved, ...burst })
    }),
  )
/** Not any double: most of those are tiny, and nothing is reserved of a tiny share. */
const anyShare = fc.integer({ min: 1, max: 1_000 }).map((thousandths) => thousandths / 1_000)

test('one request fits into an empty share of any limits, and a share is no more than the limits', async () => {
  await expectProperty(
    fc.asyncProperty(anyFitting, anyShare, async (charge, share) => {
      const local = scaleToLocalShare(charge, share)
      const store = new MemoryStore(() => 1_700_000_000_000)
      expect((await store.decide(take([local]))).granted).toBe(1)
      const [whole, part] = [charge, local].map(({ limits, burst, reserved }) => [limits[0]?.limit, burst, reserved])
      part?.forEach((units, at) => {
        expect(units ?? 0).toBeLessThanOrEqual(whole?.[at] ?? 0)
      })
    }),
    2_000,
  )
})
