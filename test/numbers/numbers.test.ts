import { expect, inject, test } from 'vitest'
import { run } from './run.ts'

const seed = Number(process.env.NUMBERS_SEED ?? Math.floor(Math.random() * 2 ** 32))

test('the statistics equal what clients have seen, outcome by outcome, and give nobody away', async () => {
  const { compared, miscounted, leaks, statistics } = await run({ bundle: inject('bundle'), requests: 2_500, seed })
  expect(
    compared.map(({ what, counted }) => [what, counted]),
    `NUMBERS_SEED=${seed}`,
  ).toEqual(compared.map(({ what, seen }) => [what, seen]))
  expect(miscounted).toEqual([])
  expect(leaks).toEqual([])

  // And something was there to be counted.
  const { requests, degraded, store } = statistics.total
  const counts = [requests.admitted, requests.limited, requests.unidentified, requests.bad_request]
  counts.push(requests.blocked)
  counts.push(requests.unavailable, degraded.local, store.calls, store.failures)
  for (const count of counts) expect(count).toBeGreaterThan(0)
  expect(store.latency.counts.reduce((sum, count) => sum + count, 0)).toBe(store.calls - store.failures)
})
