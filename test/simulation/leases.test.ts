import { expect, test } from 'vitest'
import { BUSY, NEAR_THE_LIMIT, ROUND_TRIPS_MS, serve } from '../../bench/accuracy/places.ts'

// Counts in virtual time: how fast the machine is plays no part. `npm run bench -- --only accuracy` plays all of the table.
const SOME = NEAR_THE_LIMIT.filter(({ leases, roundTripMs }) => leases === 'auto' || roundTripMs === 20)
const AT_RANDOM = SOME.filter(({ leases, roundTripMs }) => leases === 'auto' && roundTripMs === 0)

test.each([...SOME, ...AT_RANDOM.map((scenario) => ({ ...scenario, isRandom: true }))])(
  'Leases ($leases) give a caller of $name at $load of its limit as much as without, $roundTripMs ms from the store',
  async (scenario) => {
    const { admitted, ideal, fullest } = await serve(scenario)
    expect(admitted / ideal).toBeGreaterThanOrEqual(0.97)
    expect(fullest).toBeLessThanOrEqual(1)
  },
)

test.each(BUSY.flatMap((scenario) => ROUND_TRIPS_MS.map((roundTripMs) => ({ ...scenario, roundTripMs }))))(
  'Leases ask at most once in ten requests for a caller at half of $name, $roundTripMs ms from the store',
  async (scenario) => {
    const { requests, calls, admitted, fullest } = await serve(scenario)
    expect(calls / requests).toBeLessThanOrEqual(0.1)
    expect(admitted).toBe(requests)
    expect(fullest).toBeLessThanOrEqual(1)
  },
)
