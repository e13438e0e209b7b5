/**
 * What it costs to match a request against 10,000 blocks, allows and overrides, above what the limiter does with it anyway,
 * and to read them.
 *
 *     npm run bench:rules [-- --entries 1000]
 *
 * Figures are the processor time of the fastest of several rounds, in which other requests were matched than before.
 */
import { parseArgs } from 'node:util'
import { measureRules } from './rules/measure.ts'

const { values } = parseArgs({ options: { entries: { type: 'string', default: '10000' } } })
const { entries, readMs, requests } = await measureRules({ entries: Number(values.entries), rounds: 9 })
console.log(`${entries} entries; to read them: ${readMs.toFixed(0)} ms`)
for (const { callers, addedUs } of requests) console.log(`callers ${callers}: the rules add ${addedUs.toFixed(2)} µs`)
