import { expect, test } from 'vitest'
import { ALGORITHMS } from '../../src/core/algorithms/algorithm-table.ts'
import { applyCorrection } from '../../src/core/algorithms/corrections.ts'
import { createCharge, EVERY_ALGORITHM } from '../support/charges.ts'

const createChargeOf = (algorithm: (typeof EVERY_ALGORITHM)[number]) =>
  createCharge(algorithm, [{ limit: 1, windowMs: 1_000 }])

test.each(EVERY_ALGORITHM)('a correction that %s cannot make changes nothing', (algorithm) => {
  const { settle, slots } = ALGORITHMS[algorithm].implementation
  const charge = createChargeOf(algorithm)
  if (!settle) {
    expect(applyCorrection({ kind: 'settle', charge, units: 1, chargedAtMs: 0 }, undefined, 0)).toBeUndefined()
  }
  for (const kind of slots ? [] : (['release', 'revoke', 'renew'] as const)) {
    expect(applyCorrection({ kind, charge }, undefined, 0)).toBeUndefined()
  }
})
