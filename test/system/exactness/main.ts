/**
 * The long form: `npm run test:exactness`. EXACTNESS_SEED replays the same costs and pauses. Over Durable Objects, with
 * `--abort-every <seconds>`, all objects are ended at once, time and again. With `--stretch <factor>`, windows are so many
 * times as long: a machine that is too slow to fill them then still comes to refuse.
 */
import { withBundle } from '../../support/build-bundle.ts'
import { runLongForm } from '../kit/long-form.ts'
import { findObjectViolations, findTooManyUndue, formatObjectFindings } from './objects/report-objects.ts'
import { runOverObjects } from './objects/run-objects.ts'
import { findViolations, formatFindings } from './report.ts'
import { run } from './run.ts'

const options = {
  requests: { type: 'string', default: '100000' },
  callers: { type: 'string' },
  leases: { type: 'string', default: 'off' },
  store: { type: 'string', default: 'redis' },
  'abort-every': { type: 'string', default: '0' },
  stretch: { type: 'string', default: '1' },
} as const
const MAX_SHOWN = 20

await runLongForm({ options, seedVariable: 'EXACTNESS_SEED' }, async ({ values, seed }) => {
  const { leases, store } = values
  if (store !== 'redis' && store !== 'durable-object') throw new Error('--store: redis or durable-object')
  // So few that answers come within a quarter of a lease.
  const callers = Number(values.callers ?? (leases === 'off' ? 60 : 12))
  const traffic = { requests: Number(values.requests), callers, seed }
  return withBundle(async (bundle) => {
    if (store === 'redis') {
      const findings = await run({ bundle, ...traffic, leases })
      console.log(formatFindings(findings, callers, leases))
      return findViolations(findings).slice(0, MAX_SHOWN)
    }
    const [abortEvery, stretch] = [Number(values['abort-every']), Number(values.stretch)]
    const findings = await runOverObjects({ bundle, ...traffic, abortEvery, stretch })
    console.log(formatObjectFindings(findings, callers))
    return [...findObjectViolations(findings), ...findTooManyUndue(findings)].slice(0, MAX_SHOWN)
  })
})
