/**
 * The long form: `npm run test:dodging`; `-- --only express5,cookie` for some frameworks and kinds of identities.
 * DODGING_SEED replays the same spellings.
 */
import { parseArgs } from 'node:util'
import { readSeed } from '../../../tools/seeded-random.ts'
import { withBundle } from '../../support/build-bundle.ts'
import { judgeReadings, type Row } from '../../support/judge-readings.ts'
import { KINDS } from '../../support/lenient-readings.ts'
import { dodge } from './dodge.ts'
import { FRAMEWORKS, findVersion, installFrameworks } from './frameworks.ts'
import { dodgeIdentities } from './identities.ts'

/** Of each framework, as many as tell what kinds there are. */
const SHOWN_BYPASSES = 10

const { values } = parseArgs({
  options: { spellings: { type: 'string', default: '30000' }, only: { type: 'string' } },
})
const spellings = Number(values.spellings)
const only = values.only?.split(',')
const seed = readSeed('DODGING_SEED')
console.log(`DODGING_SEED=${seed}`)

installFrameworks()
await withBundle(async (bundle) => {
  const rows: Record<string, string | number>[] = []
  for (const framework of FRAMEWORKS.filter(({ name }) => only?.includes(name) ?? true)) {
    const { name } = framework
    const version = await findVersion(framework)
    if (version === undefined) {
      console.log(`${name} is left out: this machine's Python does not have it`)
      continue
    }
    const { reached, refused, bypasses } = await dodge(framework, { bundle, seed, spellings })
    rows.push({
      framework: name,
      version,
      spellings,
      'reached a handler': reached,
      'refused 400': refused,
      bypasses: bypasses.length,
    })
    for (const { handler, bytes } of bypasses.slice(0, SHOWN_BYPASSES)) {
      console.error(`${name}: ${handler} was served uncharged to ${JSON.stringify(bytes)}`)
    }
    if (bypasses.length > 0) process.exitCode = 1
  }
  const kinds = KINDS.filter((kind) => only?.includes(kind) ?? true)
  if (rows.length > 0) console.table(rows)
  const findings = kinds.length > 0 ? await dodgeIdentities({ bundle, seed, spellings, kinds }) : []
  for (const { kind, dodges } of findings) {
    for (const dodge of dodges.slice(0, SHOWN_BYPASSES)) console.error(`${kind}: was served: ${dodge}`)
    if (dodges.length > 0) process.exitCode = 1
  }
  if (kinds.length > 0) console.table(findings.map(({ dodges, ...rest }) => ({ ...rest, dodges: dodges.length })))
})

const readings: Row[] = []
for (const kind of KINDS.filter((kind) => only?.includes(kind) ?? true)) {
  const { rows, dodges } = await judgeReadings(kind, { seed, spellings })
  readings.push(...rows)
  for (const dodge of dodges.slice(0, SHOWN_BYPASSES)) console.error(JSON.stringify(dodge))
  if (dodges.length > 0) process.exitCode = 1
}
if (readings.length > 0) console.table(readings)
