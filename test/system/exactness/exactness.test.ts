import { expect, inject, test } from 'vitest'
import { violations } from './report.ts'
import { LEAST_TOLD, run } from './run.ts'

const seed = Number(process.env.EXACTNESS_SEED ?? Math.floor(Math.random() * 2 ** 32))

test('four points of presence admit, under load, no more than there is room for, and no less', async () => {
  const requests = 2_500
  let isTelling = false
  // A machine that sends too little to fill these windows fills longer ones.
  for (const stretch of [1, 4, 16]) {
    const findings = await run({ bundle: inject('bundle'), requests, callers: 12, seed, stretch })
    expect(violations(findings), `EXACTNESS_SEED=${seed}`).toEqual([])

    const { outcomes, audit, tiers } = findings
    expect(outcomes).toHaveLength(requests)
    for (const { policy, tier, byClients } of tiers) {
      expect([policy, tier.limit, byClients.windows]).toEqual([policy, tier.limit, audit.admitted])
    }
    const isMixed = Math.min(audit.admitted, audit.refused) > requests / 20
    isTelling = isMixed && tiers.every(({ fullest }) => fullest > 0.5)
    if (isTelling) break
  }
  expect(isTelling, 'the load filled every tier by half, and a twentieth was refused').toBe(true)
})

test('four points of presence do so too with permits taken in advance', async () => {
  const requests = 800
  const findings = await run({ bundle: inject('bundle'), requests, callers: 4, seed, leases: 'auto' })
  expect(violations(findings), `EXACTNESS_SEED=${seed}`).toEqual([])

  // Permits were spent without a call, and limits were reached while others could still be.
  const { outcomes, audit, ledger } = findings
  const spentWithoutCall = audit.admitted - ledger.grants
  expect(audit.calls).toBeLessThan(outcomes.length)
  for (const count of [ledger.leases, spentWithoutCall, audit.refused, ledger.refusedBesideLeases]) {
    expect(count).toBeGreaterThanOrEqual(LEAST_TOLD)
  }
})
