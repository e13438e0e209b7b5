import { parseArgs } from 'node:util'
import { withBundle } from '../../support/build-bundle.ts'
import { LONG, LONG_OF_TIME, type Outcome, SHORT, SHORT_OF_TIME } from './scenario.ts'
import { SCENARIOS } from './scenarios.ts'
import { startSite } from './site.ts'
import { formatTable, type Row } from './table.ts'
import { WHOLE_RUN, watchWholeRun } from './whole-run.ts'

/** The whole run ends within this, whatever happens. */
const BOUND_MS = 600_000

const { values } = parseArgs({ options: { short: { type: 'boolean', default: false }, only: { type: 'string' } } })
const scenarios = SCENARIOS.filter(({ fault }) => fault.includes(values.only ?? ''))
const [length, lengthOfTime] = values.short ? [SHORT, SHORT_OF_TIME] : [LONG, LONG_OF_TIME]
const parts = [
  { length, scenarios: scenarios.filter(({ isOfTime }) => !isOfTime) },
  { length: lengthOfTime, scenarios: scenarios.filter(({ isOfTime }) => isOfTime) },
]

const rows: Row[] = []
setTimeout(() => {
  console.log(formatTable(rows))
  console.error(`not finished within ${BOUND_MS / 60_000} minutes`)
  process.exit(1)
}, BOUND_MS).unref()

await withBundle(async (bundle) => {
  for (const { length, scenarios } of parts) {
    if (scenarios.length === 0) continue
    const site = await startSite(length, bundle)
    const finish = await watchWholeRun(site)
    for (const [index, scenario] of scenarios.entries()) {
      const startedMs = performance.now()
      const outcome = await scenario.run(site, length).catch((error: unknown): Outcome => {
        const [line] = String(error).split('\n')
        return { observed: 'could not be run', requests: 0, errors: 0, differences: [`${line}`] }
      })
      rows.push({ scenario, outcome })
      const verdict = outcome.differences.length === 0 ? 'as promised' : 'NOT AS PROMISED'
      const tookS = ((performance.now() - startedMs) / 1_000).toFixed(1)
      console.error(`${index + 1}/${scenarios.length} ${scenario.fault}: ${verdict}, ${tookS} s`)
    }
    rows.push({ scenario: WHOLE_RUN, outcome: await finish() })
    await site.stop()
  }
})

console.log(formatTable(rows))
const isKept = rows.every(({ outcome }) => outcome.differences.length === 0)
process.exit(isKept ? 0 : 1)
