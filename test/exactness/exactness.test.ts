import { expect, inject, test } from 'vitest'
import { violations } from './report.ts'
import { run } from './run.ts'

const REQUESTS = 5_000
const CALLERS = 24

test('four points of presence admit, under load, no more than there is room for, and no less', async () => {
  const seed = Number(process.env.EXACTNESS_SEED ?? Math.floor(Math.random() * 2 ** 32))
  const findings = await run({ bundle: inject('bundle'), requests: REQUESTS, callers: CALLERS, seed })
  expect(violations(findings), `EXACTNESS_SEED=${seed}`).toEqual([])

  // The load was one that tests something.
  const { outcomes, audit, tiers } = findings
  expect(outcomes).toHaveLength(REQUESTS)
  expect(Math.min(audit.admitted, audit.refused)).toBeGreaterThan(REQUESTS / 20)
  for (const { policy, tier, byClients, fullest } of tiers) {
    expect([policy, tier.limit, byClients.windows]).toEqual([policy, tier.limit, audit.admitted])
    expect(fullest, `${policy} ${tier.limit}`).toBeGreaterThan(0.5)
  }
})
