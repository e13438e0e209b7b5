/** One identity that all the world's isolates ask for, each of them seldom: in virtual time, over both stores. */
import { describe, expect, test } from 'vitest'
import { type ScalePolicies, TOKEN_AND_GLOBAL } from '../../../bench/scale/policies.ts'
import { type Scenario, simulate } from '../../../bench/scale/simulate.ts'

const WINDOW_MS = 10_000
const PER_SECOND = 3_000

/** @param share of the limit that is asked for */
function request(share: number): ScalePolicies {
  const ofAll = { limit: Math.round((PER_SECOND * WINDOW_MS) / 1_000 / share), windowMs: WINDOW_MS }
  return { name: 'one identity', findLimits: () => ({ ofAll }) }
}

function createScenario(policies: ScalePolicies, store: Scenario['store']): Scenario {
  const times = { warmUpMs: 15_000, measuredMs: WINDOW_MS / 2 }
  return { policies, store, leases: 'auto', perSecond: PER_SECOND, oneIn: 1, callers: 10_000, ...times, seed: 1 }
}

describe('Leases of a hot identity, for 1,200 isolates', () => {
  test('call an object less often than it serves, and refuse nothing that fits', async () => {
    const { requests, admitted, ideal, undecided, calls, fullest } = await simulate(
      createScenario(request(0.5), 'durable-object'),
    )
    expect(calls * PER_SECOND).toBeLessThan(1_000)
    expect(undecided / requests).toBeLessThanOrEqual(0.01)
    expect(admitted / ideal).toBeGreaterThanOrEqual(0.99)
    expect(fullest).toBeLessThanOrEqual(1)
  })

  test('call an object seldom beside limits of callers, also after all have begun at once', async () => {
    const { requests, admitted, ideal, undecided, sharedCalls, fullest } = await simulate(
      createScenario(TOKEN_AND_GLOBAL, 'durable-object'),
    )
    expect(sharedCalls * PER_SECOND).toBeLessThan(1_000)
    expect(undecided / requests).toBeLessThanOrEqual(0.01)
    expect(admitted / ideal).toBeGreaterThanOrEqual(0.97)
    expect(fullest).toBeLessThanOrEqual(1)
  })

  test('keep a flood away from Redis', async () => {
    const { requests, undecided, calls, fullest } = await simulate(createScenario(request(2), 'redis'))
    expect(calls * PER_SECOND).toBeLessThan(1_000)
    expect(undecided / requests).toBeLessThanOrEqual(0.01)
    expect(fullest).toBeLessThanOrEqual(1)
  })
})
