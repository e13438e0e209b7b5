import { expect, inject, test } from 'vitest'
import { readSeed } from '../../../tools/seeded-random.ts'
import { run } from './run.ts'

const seed = readSeed('NUMBERS_SEED')

test.each([
  ['redis', 1_000],
  // Each key is an object of its own, with a file of its own here.
  ['durable-object', 600],
] as const)(
  'over %s, the statistics equal what clients have seen, outcome by outcome, and give nobody away',
  async (kind, requests) => {
    const { compared, miscounted, leaks, statistics } = await run({
      bundle: inject('bundle'),
      store: kind,
      requests,
      seed,
    })
    expect(
      compared.map(({ what, counted }) => [what, counted]),
      `NUMBERS_SEED=${seed}`,
    ).toEqual(compared.map(({ what, seen }) => [what, seen]))
    expect(miscounted).toEqual([])
    expect(leaks).toEqual([])

    // All blocks are those of one rule.
    const { blocked: all } = statistics.total.requests
    expect(statistics.rules.map(({ max, min }) => [min, max])).toEqual([[all, all]])
    // And something was there to be counted.
    const { requests: counted, degraded, store } = statistics.total
    const { admitted, limited, unidentified, bad_request, blocked, unavailable } = counted
    const outcomes = { admitted, limited, unidentified, bad_request, blocked, unavailable }
    const counts = { ...outcomes, local: degraded.local, calls: store.calls, failures: store.failures }
    expect(Object.entries(counts).filter(([, count]) => count === 0)).toEqual([])
    expect(store.latency.counts.reduce((sum, count) => sum + count, 0)).toBe(store.calls - store.failures)
  },
)
