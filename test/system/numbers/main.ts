/** The long form: `npm run test:numbers`. NUMBERS_SEED replays the same requests. */
import { withBundle } from '../../support/build-bundle.ts'
import { runLongForm } from '../kit/long-form.ts'
import { run } from './run.ts'

const options = {
  requests: { type: 'string', default: '50000' },
  store: { type: 'string', default: 'redis' },
} as const

await runLongForm({ options, seedVariable: 'NUMBERS_SEED' }, ({ values: { store, requests }, seed }) => {
  if (store !== 'redis' && store !== 'durable-object') throw new Error('--store: redis or durable-object')
  return withBundle(async (bundle) => {
    const found = await run({ bundle, store, requests: Number(requests), seed })
    console.table(found.compared)
    const { callsAvoided, leases, ...rest } = found.statistics.total
    console.log({ calls: rest.store.calls, failures: rest.store.failures, callsAvoided, leases })
    const differing = found.compared.filter(({ seen, counted }) => seen !== counted)
    return [
      ...differing.map(({ what, seen, counted }) => `${what}: clients saw ${seen}, counted are ${counted}`),
      ...found.miscounted.map((caller) => `refused callers: ${caller} is not within its bounds`),
      ...found.leaks.map((leak) => `leaked: ${leak}`),
    ]
  })
})
