/**
 * The long form: `npm run test:histories`. With `-- --store redis` (or another), only that; HISTORIES_SEED draws the same
 * charges and faults again.
 */
import { withBundle } from '../../support/build-bundle.ts'
import { runLongForm } from '../kit/long-form.ts'
import { PLACE_NAMES } from './places.ts'
import { formatFindings, listVerdicts, run } from './run.ts'

const options = {
  requests: { type: 'string', default: '50000' },
  lanes: { type: 'string', default: '16' },
  store: { type: 'string' },
} as const
const MAX_SHOWN = 20
/** Share of histories with so many calls without an answer that not all orders can be tried. */
const MAX_UNDECIDED = 0.02

await runLongForm({ options, seedVariable: 'HISTORIES_SEED' }, ({ values, seed }) =>
  withBundle(async (bundle) => {
    const places = PLACE_NAMES.filter((name) => values.store === undefined || values.store === name)
    if (places.length === 0) throw new Error(`--store: ${PLACE_NAMES.join(', ')}`)
    const wrong: string[] = []
    for (const place of places) {
      const findings = await run({
        place,
        bundle,
        requests: Number(values.requests),
        lanes: Number(values.lanes),
        seed,
      })
      console.log(formatFindings(place, findings))
      wrong.push(...listVerdicts(place, findings, 'violated'))
      const undecided = listVerdicts(place, findings, 'undecided')
      for (const line of undecided) console.log(line)
      if (undecided.length > MAX_UNDECIDED * findings.verdicts.length) wrong.push(`${place}: too many are undecided`)
    }
    return wrong.slice(0, MAX_SHOWN)
  }),
)
