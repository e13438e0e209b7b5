/** The long form: `npm run test:exactness`. EXACTNESS_SEED replays the same costs and pauses. */
import { parseArgs } from 'node:util'
import { buildBundle, removeBundle } from '../support/build-bundle.ts'
import { report, violations } from './report.ts'
import { run } from './run.ts'

const { values } = parseArgs({ options: { requests: { type: 'string' }, callers: { type: 'string' } } })
const requests = Number(values.requests ?? 100_000)
const callers = Number(values.callers ?? 60)
const seed = Number(process.env.EXACTNESS_SEED ?? Math.floor(Math.random() * 2 ** 32))
console.log(`EXACTNESS_SEED=${seed}`)

const bundle = await buildBundle()
try {
  const startMs = performance.now()
  const findings = await run({ bundle, requests, callers, seed })
  console.log(report(findings, callers, (performance.now() - startMs) / 1000))
  const found = violations(findings)
  for (const violation of found.slice(0, 20)) console.error(violation)
  if (found.length > 0) process.exitCode = 1
} finally {
  await removeBundle(bundle)
}
