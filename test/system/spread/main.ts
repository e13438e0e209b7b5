/** The long form: `npm run test:rules-spread`. About 40 seconds; fails if a block is late anywhere, or a request fails. */
import { parseArgs } from 'node:util'
import { withBundle } from '../../support/build-bundle.ts'
import { run } from './run.ts'

const REFRESH_MS = 5_000

const { values } = parseArgs({ options: { rate: { type: 'string', default: '500' } } })
const rate = Number(values.rate)
await withBundle(async (bundle) => {
  const spread = await run({ bundle, pointsOfPresence: 4, rate, refreshMs: REFRESH_MS })
  const { reached, requests, commandMs, activeAfterMs, letInWithoutRedis, refusedWithoutRedis, errors } = spread
  console.log(`${requests} requests, ${reached.toFixed(0)} a second of the ${rate} that were asked for`)
  console.log(`the command took ${(commandMs / 1_000).toFixed(1)} s`)
  console.log(`active after its start: ${activeAfterMs.map((ms) => `${(ms / 1_000).toFixed(1)} s`).join(', ')}`)
  console.log(`while Redis was dead: ${refusedWithoutRedis} refused, ${letInWithoutRedis} let in of the blocked caller`)
  for (const [outcome, count] of errors) console.error(`errors: ${count} × ${outcome}`)
  const isLate = Math.max(...activeAfterMs) > 2 * REFRESH_MS + commandMs
  if (isLate) console.error(`late: more than ${(2 * REFRESH_MS) / 1_000} s after its end`)
  if (isLate || errors.size > 0 || letInWithoutRedis > 0 || refusedWithoutRedis === 0) process.exitCode = 1
})
