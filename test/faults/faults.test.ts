import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type Outcome, SHORT } from './scenario.ts'
import { SCENARIOS } from './scenarios.ts'
import { type Site, startSite } from './site.ts'
import { formatTable, type Row } from './table.ts'
import { WHOLE_RUN, watchWholeRun } from './whole-run.ts'

const rows: Row[] = []
let site: Site
let finish: () => Promise<Outcome>

beforeAll(async () => {
  site = await startSite(SHORT, inject('bundle'))
  finish = await watchWholeRun(site)
})
afterAll(async () => {
  console.log(formatTable(rows))
  await site.stop()
})

// One after the other: all break the same site.
test.for(SCENARIOS)('$fault: $promised', async (scenario) => {
  const outcome = await scenario.run(site, SHORT)
  rows.push({ scenario, outcome })
  expect(outcome.differences).toEqual([])
})

test(`${WHOLE_RUN.fault}: ${WHOLE_RUN.promised}`, async () => {
  const outcome = await finish()
  rows.push({ scenario: WHOLE_RUN, outcome })
  expect(outcome.differences).toEqual([])
})
