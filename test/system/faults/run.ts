/** The long form: `npm run test:faults`. With `--only`, the faults whose names contain a text; with `--short`, a trial. */
import { withBundle } from '../../support/build-bundle.ts'
import { runLongForm } from '../kit/long-form.ts'
import { LONG, LONG_OF_TIME, type Outcome, SHORT, SHORT_OF_TIME } from './scenario.ts'
import { SCENARIOS } from './scenarios.ts'
import { startSite } from './site.ts'
import { formatOutcomes, type Row } from './table.ts'
import { WHOLE_RUN, watchWholeRun } from './whole-run.ts'

/** The whole run ends within this, whatever happens. */
const BOUND_MS = 600_000

const options = { short: { type: 'boolean', default: false }, only: { type: 'string', default: '' } } as const
const rows: Row[] = []
setTimeout(() => {
  console.log(formatOutcomes(rows))
  console.error(`not finished within ${BOUND_MS / 60_000} minutes`)
  process.exit(1)
}, BOUND_MS).unref()

await runLongForm({ options }, ({ values }) =>
  withBundle(async (bundle) => {
    const meant = SCENARIOS.filter(({ fault }) => fault.includes(values.only))
    const [length, lengthOfTime] = values.short ? [SHORT, SHORT_OF_TIME] : [LONG, LONG_OF_TIME]
    for (const isOfTime of [false, true]) {
      const scenarios = meant.filter((scenario) => (scenario.isOfTime ?? false) === isOfTime)
      if (scenarios.length > 0) await breakSite(isOfTime ? lengthOfTime : length, scenarios, bundle)
    }
    console.log(formatOutcomes(rows))
    const broken = rows.filter(({ outcome }) => outcome.differences.length > 0)
    return broken.map(({ scenario }) => `not as promised: ${scenario.fault}`)
  }),
)
process.exit()

async function breakSite(
  length: typeof LONG,
  scenarios: typeof SCENARIOS,
  bundle: Parameters<typeof startSite>[1],
): Promise<void> {
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
