/**
 * What it costs to match a request against 10,000 blocks, allows and overrides, beside what the limiter does with it anyway,
 * and to read them.
 *
 *     npm run bench:rules [-- --entries 1000]
 *
 * Figures are the processor time of the fastest of several rounds, in which other requests were matched than before.
 */
import { parseArgs } from 'node:util'
import { measureRules } from './rules/measure.ts'

const { values } = parseArgs({ options: { entries: { type: 'string', default: '10000' } } })
const { entries, kib, readMs, requests } = await measureRules({ entries: Number(values.entries), rounds: 9 })
console.log(`${entries} entries, ${kib.toFixed(0)} KiB; to read them: ${readMs.toFixed(0)} ms`)
for (const { callers, limiterUs, addedUs, medianUs } of requests) {
  const [limiter, added, middle] = [limiterUs, addedUs, medianUs].map((us) => us.toFixed(2))
  console.log(`callers ${callers}: the limiter ${limiter} µs, the rules add ${added} µs (median of rounds ${middle})`)
}
