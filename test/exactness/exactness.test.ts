import { expect, inject, test } from 'vitest'
import { violations } from './report.ts'
import { run } from './run.ts'

test.each([
  { leases: 'off', requests: 5_000, callers: 24 },
  { leases: '4', requests: 2_000, callers: 12 },
])(
  'four points of presence admit, under load, no more than there is room for, and no less: LEASES=$leases',
  async ({ leases, requests, callers }) => {
    const seed = Number(process.env.EXACTNESS_SEED ?? Math.floor(Math.random() * 2 ** 32))
    const findings = await run({ bundle: inject('bundle'), requests, callers, seed, leases })
    expect(violations(findings), `EXACTNESS_SEED=${seed}`).toEqual([])

    // The load was one that tests something.
    const { outcomes, audit, tiers } = findings
    expect(outcomes).toHaveLength(requests)
    expect(Math.min(audit.admitted, audit.refused)).toBeGreaterThan(requests / 20)
    for (const { policy, tier, byClients, fullest } of tiers) {
      expect([policy, tier.limit, byClients.windows]).toEqual([policy, tier.limit, audit.admitted])
      expect(fullest, `${policy} ${tier.limit}`).toBeGreaterThan(0.5)
    }
  },
)
