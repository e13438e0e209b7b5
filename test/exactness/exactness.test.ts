import { expect, inject, test } from 'vitest'
import { violations } from './report.ts'
import { LEAST_TOLD, run } from './run.ts'

const seed = Number(process.env.EXACTNESS_SEED ?? Math.floor(Math.random() * 2 ** 32))

test('four points of presence admit, under load, no more than there is room for, and no less', async () => {
  const requests = 5_000
  const findings = await run({ bundle: inject('bundle'), requests, callers: 24, seed })
  expect(violations(findings), `EXACTNESS_SEED=${seed}`).toEqual([])

  // The load was one that tests something.
  const { outcomes, audit, tiers } = findings
  expect(outcomes).toHaveLength(requests)
  expect(Math.min(audit.admitted, audit.refused)).toBeGreaterThan(requests / 20)
  for (const { policy, tier, byClients, fullest } of tiers) {
    expect([policy, tier.limit, byClients.windows]).toEqual([policy, tier.limit, audit.admitted])
    expect(fullest, `${policy} ${tier.limit}`).toBeGreaterThan(0.5)
  }
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
