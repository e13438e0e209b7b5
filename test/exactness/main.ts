/** The long form: `npm run test:exactness`. EXACTNESS_SEED replays the same costs and pauses. */
import { parseArgs } from 'node:util'
import { buildBundle, removeBundle } from '../support/build-bundle.ts'
import { report, violations } from './report.ts'
import { run } from './run.ts'

const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '100000' },
    callers: { type: 'string' },
    leases: { type: 'string', default: 'off' },
  },
})
const { leases } = values
// So few that answers come within a quarter of a lease.
const callers = Number(values.callers ?? (leases === 'off' ? 60 : 12))
const requests = Number(values.requests)
const seed = Number(process.env.EXACTNESS_SEED ?? Math.floor(Math.random() * 2 ** 32))
console.log(`EXACTNESS_SEED=${seed}`)

const bundle = await buildBundle()
try {
  const findings = await run({ bundle, requests, callers, seed, leases })
  console.log(report(findings, callers, leases))
  const found = violations(findings)
  for (const violation of found.slice(0, 20)) console.error(violation)
  if (found.length > 0) process.exitCode = 1
} finally {
  await removeBundle(bundle)
}
