/**
 * The long form of a load scenario: `node test/system/load.ts <scenario>`, with an option for each of its sizes.
 * LOAD_SEED replays the same draws. It ends with a verdict, whatever happens: 0 passed, 1 failed, 2 inconclusive, which
 * is that too little happened to tell.
 */
import { parseArgs } from 'node:util'
import { readSeed } from '../../tools/seeded-random.ts'
import { withBundle } from '../support/build-bundle.ts'
import { EXACTNESS } from './exactness/scenario.ts'
import { FAULTS } from './faults/scenario.ts'
import { HISTORIES } from './histories/scenario.ts'
import type { Options, Scenario } from './kit/scenario.ts'
import { NUMBERS } from './numbers/scenario.ts'
import { SOAK } from './soak/scenario.ts'
import { SPREAD } from './spread/scenario.ts'

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  exactness: EXACTNESS,
  faults: FAULTS,
  histories: HISTORIES,
  numbers: NUMBERS,
  soak: SOAK,
  spread: SPREAD,
}
const MAX_SHOWN = 20
const PROGRESS_EVERY_MS = 30_000
/** What is in flight when the time is up ends within this, and so does reading and judging. */
const GRACE_MS = 120_000
const INCONCLUSIVE = 2

const [name = '', ...args] = process.argv.slice(2)
const scenario = SCENARIOS[name]
if (!scenario) {
  console.error(`expected a scenario, ${Object.keys(SCENARIOS).join(', ')}, and not ${name}`)
  process.exit(1)
}
const { options, minutes } = readOptions(scenario)
const seed = readSeed('LOAD_SEED')
console.log(`LOAD_SEED=${seed}`)
const progress = { answered: 0 }
const startMs = performance.now()
const tell = () => `${progress.answered} requests answered in ${((performance.now() - startMs) / 1_000).toFixed(0)} s`
const signal = AbortSignal.timeout(Math.round(minutes * 60_000))
const telling = setInterval(() => console.log(tell()), PROGRESS_EVERY_MS)
setTimeout(
  () => {
    console.log(`inconclusive: not judged within ${minutes} minutes and ${GRACE_MS / 60_000}; ${tell()}`)
    process.exit(INCONCLUSIVE)
  },
  minutes * 60_000 + GRACE_MS,
).unref()

const { wrong, missing } = await withBundle(async (bundle) => {
  const found: { wrong: string[]; missing: string[] } = { wrong: [], missing: [] }
  for (const one of options) {
    if (signal.aborted) {
      found.missing.push(`${JSON.stringify(one)}: its turn never came`)
      continue
    }
    console.log(JSON.stringify(one))
    const { shown, wrong, missing } = await scenario.run(one, { bundle, seed, signal, progress })
    console.log(shown)
    found.wrong.push(...wrong)
    found.missing.push(...missing)
  }
  return found
})
clearInterval(telling)
if (signal.aborted) missing.push(`not all was sent within ${minutes} minutes`)
for (const line of wrong.slice(0, MAX_SHOWN)) console.error(line)
for (const line of missing.slice(0, MAX_SHOWN)) console.error(`missing: ${line}`)
const verdict = wrong.length > 0 ? 'failed' : missing.length > 0 ? 'inconclusive' : 'passed'
console.log(`\n${verdict}: ${name}; ${tell()}`)
process.exitCode = { passed: 0, failed: 1, inconclusive: INCONCLUSIVE }[verdict]

/** Each size and choice of the scenario is an option of that name; one that is given is so in all that is run. */
function readOptions({ long, maxMinutes, isMeant }: Scenario): { options: readonly Options[]; minutes: number } {
  const toFlag = (key: string) => key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
  const keys = Object.keys(long[0] ?? {})
  const toType = (key: string) => (typeof long[0]?.[key] === 'boolean' ? 'boolean' : 'string')
  const { values } = parseArgs({
    args,
    options: Object.fromEntries([...keys, 'minutes'].map((key) => [toFlag(key), { type: toType(key) }])),
  })
  const given = keys.flatMap((key) => {
    const value = values[toFlag(key)]
    if (value === undefined) return []
    const isNumber = typeof long[0]?.[key] === 'number'
    if (isNumber && !(Number(value) >= 0)) throw new Error(`--${toFlag(key)}: expected a number, not ${value}`)
    return [[key, isNumber ? Number(value) : value] as const]
  })
  const options = long.map((one) => ({ ...one, ...Object.fromEntries(given) })).filter(isMeant)
  if (options.length === 0) throw new Error('nothing is to be run by these options')
  // Cases that are alike now are one.
  const unlike = [...new Map(options.map((one) => [JSON.stringify(one), one])).values()]
  return { options: unlike, minutes: Number(values.minutes ?? maxMinutes) }
}
