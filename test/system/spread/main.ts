/** The long form: `npm run test:rules-spread`. About 40 seconds; fails if a block is late anywhere, or a request fails. */
import { withBundle } from '../../support/build-bundle.ts'
import { runLongForm } from '../kit/long-form.ts'
import { run } from './run.ts'

const REFRESH_MS = 5_000

await runLongForm({ options: { rate: { type: 'string', default: '500' } } }, ({ values }) =>
  withBundle(async (bundle) => {
    const ratePerS = Number(values.rate)
    const spread = await run({ bundle, points: 4, ratePerS, refreshMs: REFRESH_MS })
    const { reached, requests, commandMs, activeAfterMs, letInWithoutRedis, refusedWithoutRedis, errors } = spread
    console.log(`${requests} requests, ${reached.toFixed(0)} a second of the ${ratePerS} that were wanted`)
    console.log(`the command took ${(commandMs / 1_000).toFixed(1)} s`)
    console.log(`active after its start: ${activeAfterMs.map((ms) => `${(ms / 1_000).toFixed(1)} s`).join(', ')}`)
    console.log(
      `while Redis was dead: ${refusedWithoutRedis} refused, ${letInWithoutRedis} let in of the blocked caller`,
    )
    const isLate = Math.max(...activeAfterMs) > 2 * REFRESH_MS + commandMs
    return [
      ...[...errors].map(([outcome, count]) => `errors: ${count} × ${outcome}`),
      ...(isLate ? [`late: more than ${(2 * REFRESH_MS) / 1_000} s after its end`] : []),
      ...(letInWithoutRedis > 0 ? ['the blocked caller was let in'] : []),
      ...(refusedWithoutRedis === 0 ? ['the blocked caller was never refused'] : []),
    ]
  }),
)
