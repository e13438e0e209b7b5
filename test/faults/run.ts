import { parseArgs } from 'node:util'
import { LONG, type Outcome, SHORT } from './scenario.ts'
import { SCENARIOS } from './scenarios.ts'
import { startSite } from './site.ts'
import { formatTable, type Row } from './table.ts'

/** The whole run ends within this, whatever happens. */
const BOUND_MS = 600_000

const { values } = parseArgs({ options: { short: { type: 'boolean', default: false }, only: { type: 'string' } } })
const length = values.short ? SHORT : LONG
const scenarios = SCENARIOS.filter(({ fault }) => fault.includes(values.only ?? ''))

const rows: Row[] = []
let unhandled = 0
process.on('unhandledRejection', (reason) => {
  unhandled++
  console.error('unhandled rejection in the runner:', reason)
})
setTimeout(() => {
  console.log(formatTable(rows))
  console.error(`not finished within ${BOUND_MS / 60_000} minutes`)
  process.exit(1)
}, BOUND_MS).unref()

const site = await startSite()
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
await site.stop()

console.log(formatTable(rows))
const isKept = unhandled === 0 && rows.every(({ outcome }) => outcome.differences.length === 0)
process.exit(isKept ? 0 : 1)
