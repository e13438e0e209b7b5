/** The long form: `npm run test:exactness`. EXACTNESS_SEED replays the same costs and pauses. */
import { parseArgs } from 'node:util'
import { readSeed } from '../../../tools/seeded-random.ts'
import { type Bundle, withBundle } from '../../support/build-bundle.ts'
import { objectReport, objectViolations, undueViolations } from './objects/report-objects.ts'
import { runOverObjects } from './objects/run-objects.ts'
import { report, violations } from './report.ts'
import { run } from './run.ts'

const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '100000' },
    callers: { type: 'string' },
    leases: { type: 'string', default: 'off' },
    store: { type: 'string', default: 'redis' },
    'abort-every': { type: 'string', default: '0' },
    stretch: { type: 'string', default: '1' },
  },
})
const { leases } = values
// So few that answers come within a quarter of a lease.
const callers = Number(values.callers ?? (leases === 'off' ? 60 : 12))
const requests = Number(values.requests)
const seed = readSeed('EXACTNESS_SEED')
console.log(`EXACTNESS_SEED=${seed}`)

if (values.store !== 'redis' && values.store !== 'durable-object') throw new Error('--store: redis or durable-object')
await withBundle(async (bundle) => {
  const found = values.store === 'durable-object' ? await checkObjects(bundle) : await checkRedis(bundle)
  for (const violation of found.slice(0, 20)) console.error(violation)
  if (found.length > 0) process.exitCode = 1
})

async function checkRedis(bundle: Bundle): Promise<readonly string[]> {
  const findings = await run({ bundle, requests, callers, seed, leases })
  console.log(report(findings, callers, leases))
  return violations(findings)
}

/**
 * With `--abort-every <seconds>`, all objects are ended at once, time and again. With `--stretch <factor>`, windows are so
 * many times as long: a machine that is too slow to fill them then still comes to refuse.
 */
async function checkObjects(bundle: Bundle): Promise<readonly string[]> {
  const findings = await runOverObjects({
    bundle,
    requests,
    callers,
    seed,
    abortEvery: Number(values['abort-every']),
    stretch: Number(values.stretch),
  })
  console.log(objectReport(findings, callers))
  return [...objectViolations(findings), ...undueViolations(findings)]
}
