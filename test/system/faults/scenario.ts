/** All that breaks, one after the other under steady traffic, and what is promised while it does. */
import { defineScenario, type Options } from '../kit/scenario.ts'
import { LONG, LONG_OF_TIME, type Outcome, type Scenario, SHORT, SHORT_OF_TIME } from './fault.ts'
import { FRONT_FAULTS } from './front-faults.ts'
import { REDIS_FAULTS } from './redis-faults.ts'
import { startSite } from './site.ts'
import { formatOutcomes, type Row } from './table.ts'
import { UPSTREAM_FAULTS } from './upstream-faults.ts'
import { WHOLE_RUN, watchWholeRun } from './whole-run.ts'

interface FaultsOptions extends Options {
  /** Those whose names contain this. */
  readonly only: string
  /** A trial, as short as the tests. */
  readonly short: boolean
  /** Those by which the store misses its deadline, or all others. */
  readonly ofTime: boolean
}

const SCENARIOS: readonly Scenario[] = [...FRONT_FAULTS, ...REDIS_FAULTS, ...UPSTREAM_FAULTS]

/** In the order in which they break. */
export function listScenarios(ofTime: boolean): readonly Scenario[] {
  return SCENARIOS.filter(({ isOfTime = false }) => isOfTime === ofTime)
}

const listMeant = ({ only, ofTime }: FaultsOptions) => listScenarios(ofTime).filter(({ fault }) => fault.includes(only))

function findLength({ short, ofTime }: FaultsOptions) {
  if (short) return ofTime ? SHORT_OF_TIME : SHORT
  return ofTime ? LONG_OF_TIME : LONG
}

export const FAULTS = defineScenario({
  long: [false, true].map((ofTime): FaultsOptions => ({ only: '', short: false, ofTime })),
  maxMinutes: 10,
  isMeant: (options) => listMeant(options).length > 0,
  start: (options, { bundle }) => startSite(findLength(options), bundle),

  async load(site, options, { signal, progress }) {
    const finish = await watchWholeRun(site)
    const scenarios = listMeant(options)
    const rows: Row[] = []
    for (const scenario of scenarios) {
      if (signal.aborted) break
      const startedMs = performance.now()
      const outcome = await scenario.run(site, findLength(options)).catch((error: unknown): Outcome => {
        const [line] = String(error).split('\n')
        return { observed: 'could not be run', requests: 0, errors: 0, differences: [`${line}`] }
      })
      rows.push({ scenario, outcome })
      progress.answered += outcome.requests
      const tookS = ((performance.now() - startedMs) / 1_000).toFixed(1)
      console.log(`${rows.length}/${scenarios.length} ${scenario.fault}: ${tookS} s`)
    }
    rows.push({ scenario: WHOLE_RUN, outcome: await finish() })
    return rows
  },

  read: (_, rows) => rows,

  judge: (rows) => ({
    wrong: rows.flatMap(({ scenario: { fault }, outcome }) => {
      return outcome.differences.length > 0 ? [`not as promised: ${fault}`] : []
    }),
    missing: [],
  }),

  format: formatOutcomes,
})
