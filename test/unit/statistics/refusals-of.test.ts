import { expect, test } from 'vitest'
import { REFUSED_CALLERS } from '../../../src/statistics/count-names.ts'
import { refusalsOf } from '../../../src/statistics/refusals-of.ts'
import type { Counters } from '../../../src/store/counters.ts'

const HOUR_MS = 3_600_000

test('refusalsOf() tells of each period what is known of the caller, and what may hide', async () => {
  const items = [
    { name: 'login:A', count: 9, over: 2 },
    { name: 'login:B', count: 5, over: 0 },
    { name: 'default:C', count: 3, over: 0 },
  ]
  const periods = [
    { startMs: 0, counts: new Map(), sketches: new Map([[REFUSED_CALLERS, { items, floor: 3 }]]) },
    { startMs: HOUR_MS, counts: new Map(), sketches: new Map() },
  ]
  const counters: Pick<Counters, 'read'> = { read: async () => periods }
  const query = { resolution: 'hour', fromMs: 5, toMs: HOUR_MS + 5 } as const
  expect(await refusalsOf(counters as Counters, new Set(['A', 'C']), query)).toEqual({
    ...{ periodMs: HOUR_MS, fromMs: 0, toMs: 2 * HOUR_MS },
    periods: [
      {
        startMs: 0,
        policies: [
          { policy: 'login', atLeast: 7, atMost: 9 },
          { policy: 'default', atLeast: 3, atMost: 3 },
        ],
        othersAtMost: 3,
      },
      { startMs: HOUR_MS, policies: [], othersAtMost: 0 },
    ],
  })
})
