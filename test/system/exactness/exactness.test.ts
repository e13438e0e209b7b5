import { expect, inject, test } from 'vitest'
import { readSeed } from '../../../tools/seeded-random.ts'
import { untilConclusive } from '../../support/inconclusive.ts'
import { findViolations } from './report.ts'
import { countByPermit, MIN_SEEN, run } from './run.ts'

const seed = readSeed('EXACTNESS_SEED')
/** A machine that sends too little to fill these windows fills longer ones. */
const STRETCHES = [1, 4, 16]

test('four points of presence admit, under load, no more than there is room for, and no less', (context) =>
  untilConclusive(context, STRETCHES, async (stretch) => {
    const requests = 2_500
    const findings = await run({ bundle: inject('bundle'), requests, callers: 12, seed, stretch })
    expect(findViolations(findings), `EXACTNESS_SEED=${seed}`).toEqual([])

    const { outcomes, audit, limits } = findings
    expect(outcomes).toHaveLength(requests)
    for (const { policy, limit, byClients } of limits) {
      expect([policy, limit.limit, byClients.windows]).toEqual([policy, limit.limit, audit.admitted])
    }
    const isMixed = Math.min(audit.admitted, audit.refused) > requests / 20
    const fullest = Math.min(...limits.map((limit) => limit.fullest))
    if (isMixed && fullest > 0.5) return undefined
    return `${audit.admitted} admitted and ${audit.refused} refused, and one limit was never filled beyond ${fullest}`
  }))

test('four points of presence do so too with permits taken in advance', (context) =>
  untilConclusive(context, STRETCHES, async (stretch) => {
    const findings = await run({ bundle: inject('bundle'), requests: 800, callers: 4, seed, leases: 'auto', stretch })
    expect(findViolations(findings), `EXACTNESS_SEED=${seed}`).toEqual([])

    // Permits were used in place of charges, and limits were reached while others could still be.
    const { outcomes, audit, ledger } = findings
    expect(audit.calls).toBeLessThanOrEqual(outcomes.length)
    const seen = [ledger.leases, countByPermit(audit.admitted, ledger), audit.refused, ledger.refusedDuringLeases]
    if (seen.every((count) => count >= MIN_SEEN)) return undefined
    return `leases, charges by permits, refusals, refusals during leases: ${seen}, one below ${MIN_SEEN}`
  }))
