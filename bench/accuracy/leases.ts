import { BUSY, type NamedScenario, NEAR_THE_LIMIT, ROUND_TRIPS_MS, serve } from './places.ts'

/** What a caller gets and what it costs, in virtual time: four places of a gateway, each this far from the store. */
export interface LeaseFigures extends Pick<NamedScenario, 'name' | 'load' | 'leases' | 'roundTripMs'> {
  readonly isRandom: boolean
  readonly isBusy: boolean
  /** Admissions over those of one limiter for all. */
  readonly ofIdeal: number
  readonly callsPerRequest: number
  /** Over its limit. */
  readonly fullestWindow: number
}

/** Simulated, so the figures are the same on any machine. */
export async function measureLeases(): Promise<LeaseFigures[]> {
  const busy = BUSY.flatMap((scenario) => ROUND_TRIPS_MS.map((roundTripMs) => ({ ...scenario, roundTripMs })))
  const figures: LeaseFigures[] = []
  for (const isRandom of [false, true]) {
    for (const scenario of [...NEAR_THE_LIMIT, ...busy]) {
      const { name, load, leases, roundTripMs } = scenario
      const { requests, admitted, ideal, calls, fullest } = await serve({ ...scenario, isRandom })
      figures.push({
        ...{ name, load, leases, roundTripMs, isRandom, isBusy: busy.includes(scenario as (typeof busy)[number]) },
        ...{ ofIdeal: admitted / ideal, callsPerRequest: calls / requests, fullestWindow: fullest },
      })
    }
  }
  return figures
}
