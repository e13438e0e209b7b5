/** The long form: `npm run test:soak -- --hours 1`; ten minutes by default. Prints what is held as it goes, and at the end. */
import { withBundle } from '../../support/build-bundle.ts'
import { runLongForm } from '../kit/long-form.ts'
import { formatTable } from '../kit/table.ts'
import { listGrowths, soak } from './run.ts'

const options = { hours: { type: 'string', default: '0.17' }, rate: { type: 'string', default: '300' } } as const
/** What Cloudflare gives an isolate. */
const MAX_HEAP_MIB = 128

await runLongForm({ options }, ({ values }) =>
  withBundle(async (bundle) => {
    const seconds = Number(values.hours) * 3_600
    let shown = 0
    const { requests, identities, admitted, samples, wrong } = await soak({
      bundle,
      seconds,
      ratePerS: Number(values.rate),
      onSample(held) {
        if (shown++ % 30 === 0) console.log(formatTable(Object.entries(held)))
      },
    })
    console.log(`${requests} requests of ${identities} identities and more, ${admitted} admitted; held at the end:`)
    console.log(formatTable(Object.entries(samples.at(-1) ?? {})))
    const heap = Math.max(...samples.map((held) => held['gateway: heap, MiB'] as number))
    return [...wrong, ...listGrowths(samples), ...(heap < MAX_HEAP_MIB ? [] : [`a heap of ${heap} MiB`])]
  }),
)
