import { expect, inject, test } from 'vitest'
import { objectViolations } from './report-objects.ts'
import { runOverObjects } from './run-objects.ts'

const seed = Number(process.env.EXACTNESS_SEED ?? Math.floor(Math.random() * 2 ** 32))

test.each([0, 1])(
  'four gateways over Durable Objects admit no more than there is room for (ended every %i s)',
  async (abortEvery) => {
    const findings = await runOverObjects({
      bundle: inject('bundle'),
      requests: 400,
      callers: 8,
      seed,
      abortEvery,
      stretch: 4,
    })
    expect(objectViolations(findings), `EXACTNESS_SEED=${seed}`).toEqual([])
    expect(findings.outcomes.filter(({ status }) => status === 200).length).toBeGreaterThan(50)
    expect(findings.aborted > 0).toBe(abortEvery > 0)
  },
)
