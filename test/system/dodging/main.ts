/**
 * The long form: `npm run test:dodging`; `-- --only express5,cookie` for some frameworks and kinds of identities.
 * DODGING_SEED replays the same spellings.
 */
import { parseArgs } from 'node:util'
import { readSeed } from '../../../tools/seeded-random.ts'
import { type Bundle, withBundle } from '../../support/build-bundle.ts'
import { type Drawing, judgeReadings, type Row } from '../../support/judge-readings.ts'
import { KINDS, type Kind } from '../../support/lenient-readings.ts'
import { dodge } from './dodge.ts'
import { FRAMEWORKS, findVersion, installFrameworks } from './frameworks.ts'
import { dodgeIdentities } from './identities.ts'

/** Of each framework, as many bypasses as show what kinds there are. */
const MAX_SHOWN = 10

const { values } = parseArgs({
  options: { spellings: { type: 'string', default: '30000' }, only: { type: 'string' } },
})
const drawing = { seed: readSeed('DODGING_SEED'), spellings: Number(values.spellings) }
console.log(`DODGING_SEED=${drawing.seed}`)
const only = values.only?.split(',')
const isMeant = (name: string) => only?.includes(name) ?? true
const kinds = KINDS.filter(isMeant)
installFrameworks()
const wrong = [
  ...(await withBundle(async (bundle) => [
    ...(await dodgeFrameworks(bundle, drawing, isMeant)),
    ...(await dodgeKinds(bundle, drawing, kinds)),
  ])),
  ...(await judgeKinds(drawing, kinds)),
]
for (const line of wrong) console.error(line)
if (wrong.length > 0) process.exitCode = 1

async function dodgeFrameworks(bundle: Bundle, drawing: Drawing, isMeant: (name: string) => boolean) {
  const rows: Record<string, string | number>[] = []
  const wrong: string[] = []
  for (const framework of FRAMEWORKS.filter(({ name }) => isMeant(name))) {
    const { name } = framework
    const version = await findVersion(framework)
    if (version === undefined) {
      console.log(`${name} is left out: this machine's Python does not have it`)
      continue
    }
    const { spellings, reached, refused, bypasses } = await dodge(framework, { bundle, ...drawing })
    const counts = { 'reached a handler': reached, 'refused 400': refused, bypasses: bypasses.length }
    rows.push({ framework: name, version, spellings, ...counts })
    for (const { handler, bytes } of bypasses.slice(0, MAX_SHOWN)) {
      wrong.push(`${name}: ${handler} was served uncharged to ${JSON.stringify(bytes)}`)
    }
  }
  if (rows.length > 0) console.table(rows)
  return wrong
}

async function dodgeKinds(bundle: Bundle, drawing: Drawing, kinds: readonly Kind[]) {
  if (kinds.length === 0) return []
  const findings = await dodgeIdentities(bundle, drawing, kinds)
  console.table(findings.map(({ dodges, ...rest }) => ({ ...rest, dodges: dodges.length })))
  return findings.flatMap(({ kind, dodges }) => dodges.slice(0, MAX_SHOWN).map((one) => `${kind}: was served: ${one}`))
}

async function judgeKinds(drawing: Drawing, kinds: readonly Kind[]) {
  const readings: Row[] = []
  const wrong: string[] = []
  for (const kind of kinds) {
    const { rows, dodges } = await judgeReadings(kind, drawing)
    readings.push(...rows)
    wrong.push(...dodges.slice(0, MAX_SHOWN).map((one) => JSON.stringify(one)))
  }
  if (readings.length > 0) console.table(readings)
  return wrong
}
