import { expect, inject, test } from 'vitest'
import { BUSY, HOT, NEAR_THE_LIMIT, ROUND_TRIPS_MS, serve, serveTraffic } from '../../../bench/accuracy/places.ts'
import { START_MS } from '../../../bench/scale/virtual-time.ts'

// Counts in virtual time: how fast the machine is plays no part. All of the table is for FUZZ=long.
const IS_LONG = inject('fuzz').isLong
const REGULAR = NEAR_THE_LIMIT.filter(({ leases, load, roundTripMs }) => {
  if (leases === 'auto') return IS_LONG || roundTripMs === 20 || (roundTripMs === 160 && load <= 1)
  return IS_LONG || (roundTripMs === 20 && load <= 1)
})
const AT_RANDOM = NEAR_THE_LIMIT.filter(
  ({ leases, load, roundTripMs }) => IS_LONG || (leases === 'auto' && roundTripMs === 20 && load <= 1),
).map((scenario) => ({ ...scenario, isRandom: true }))

test.each([...REGULAR, ...AT_RANDOM])(
  'Leases ($leases) give a caller of $name at $load of its limit as much as without, $roundTripMs ms from the store',
  async (scenario) => {
    const { admitted, ideal, fullest } = await serve(scenario)
    expect(admitted / ideal).toBeGreaterThanOrEqual(0.97)
    expect(fullest).toBeLessThanOrEqual(1)
  },
)

const EVERY_BUSY = BUSY.flatMap((scenario) =>
  ROUND_TRIPS_MS.flatMap((roundTripMs) =>
    // Chance costs most where a call takes longest.
    [false, true].map((isRandom) => ({ ...scenario, roundTripMs, isRandom })),
  ),
).filter(({ isRandom, roundTripMs }) => IS_LONG || roundTripMs === 160 || (roundTripMs === 20 && !isRandom))

test.each(EVERY_BUSY)(
  'Leases ask at most once in ten requests for a caller at half of $name, $roundTripMs ms from the store (random: $isRandom)',
  async (scenario) => {
    const { requests, calls, admitted, fullest } = await serve(scenario)
    expect(calls / requests).toBeLessThanOrEqual(0.1)
    expect(admitted).toBe(requests)
    expect(fullest).toBeLessThanOrEqual(1)
  },
)

test.each([20, 100, 160])(
  'Leases decide the requests of a burst together, %i ms from the store',
  async (roundTripMs) => {
    const limits = [{ limit: 60_000, windowMs: 60_000 }]
    // 10,000 a second, of which the first find no permits.
    const arrivals = Array.from({ length: 30_000 }, (_, at) => START_MS + Math.floor(at / 10))
    const { requests, calls, admitted, fullest } = await serveTraffic({ limits, leases: 'auto', roundTripMs, arrivals })
    expect(calls / requests).toBeLessThanOrEqual(0.01)
    expect(admitted).toBe(requests)
    expect(fullest).toBeLessThanOrEqual(1)
  },
)

test.each(HOT)(
  'Leases ask at most once in fifty requests for a hot caller, also if they come in bunches',
  async (hot) => {
    const { requests, calls, admitted } = await serveTraffic({ ...hot, leases: 'auto', roundTripMs: 20 })
    expect(calls / requests).toBeLessThanOrEqual(0.02)
    expect(admitted).toBe(requests)
  },
)
