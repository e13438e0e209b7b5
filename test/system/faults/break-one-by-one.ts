import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import type { Length, Outcome, Scenario } from './fault.ts'
import { type Site, startSite } from './site.ts'
import { formatOutcomes, type Row } from './table.ts'
import { WHOLE_RUN, watchWholeRun } from './whole-run.ts'

/** Beyond any time that a busy machine takes. */
const TIMEOUT_MS = 300_000

/** Tests of one file, one after the other, as all break the same site. */
export function breakOneByOne(length: Length, scenarios: readonly Scenario[]): void {
  const rows: Row[] = []
  let site: Site
  let finish: () => Promise<Outcome>

  beforeAll(async () => {
    site = await startSite(length, inject('bundle'))
    finish = await watchWholeRun(site)
  }, TIMEOUT_MS)
  afterAll(async () => {
    console.log(formatOutcomes(rows))
    await site.stop()
  }, TIMEOUT_MS)

  test.for(scenarios)('$fault: $promised', { timeout: TIMEOUT_MS }, async (scenario) => {
    const outcome = await scenario.run(site, length)
    rows.push({ scenario, outcome })
    expect(outcome.differences).toEqual([])
  })

  test(`${WHOLE_RUN.fault}: ${WHOLE_RUN.promised}`, async () => {
    const outcome = await finish()
    rows.push({ scenario: WHOLE_RUN, outcome })
    expect(outcome.differences).toEqual([])
  })
}
