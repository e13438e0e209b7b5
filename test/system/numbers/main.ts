/** The long form: `npm run test:numbers`. NUMBERS_SEED replays the same requests. */
import { parseArgs } from 'node:util'
import { readSeed } from '../../../tools/seeded-random.ts'
import { withBundle } from '../../support/build-bundle.ts'
import { run } from './run.ts'

const { values } = parseArgs({
  options: { requests: { type: 'string', default: '50000' }, store: { type: 'string', default: 'redis' } },
})
const { store } = values
if (store !== 'redis' && store !== 'durable-object') throw new Error('--store: redis or durable-object')
const seed = readSeed('NUMBERS_SEED')
console.log(`NUMBERS_SEED=${seed}`)

await withBundle(async (bundle) => {
  const { compared, miscounted, leaks, statistics } = await run({
    bundle,
    store,
    requests: Number(values.requests),
    seed,
  })
  console.table(compared)
  const { callsAvoided, leases, ...rest } = statistics.total
  console.log({ calls: rest.store.calls, failures: rest.store.failures, callsAvoided, leases })
  const differing = compared.filter(({ seen, counted }) => seen !== counted)
  for (const { what, seen, counted } of differing) console.error(`${what}: clients saw ${seen}, counted are ${counted}`)
  for (const caller of miscounted) console.error(`refused callers: ${caller} is not within its bounds`)
  for (const leak of leaks) console.error(`leaked: ${leak}`)
  if (differing.length + miscounted.length + leaks.length > 0) process.exitCode = 1
})
