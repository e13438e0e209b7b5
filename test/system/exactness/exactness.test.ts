import { testScenario } from '../kit/scenario-test.ts'
import { EXACTNESS, type ExactnessOptions } from './scenario.ts'

/** A machine that sends too little to fill these windows fills longer ones. */
function tryStretches(options: typeof OVER_REDIS, stretches = [1, 4, 16]): ExactnessOptions[] {
  return stretches.map((stretch) => ({ ...options, stretch }))
}

const OVER_REDIS = { store: 'redis', requests: 2_500, callers: 12, leases: 'off', abortEvery: 0 }
const OVER_OBJECTS = { store: 'durable-object', requests: 400, callers: 8, leases: 'off', abortEvery: 0 }

testScenario(
  'four points of presence admit, under load, no more than there is room for, and no less',
  EXACTNESS,
  tryStretches(OVER_REDIS),
)
testScenario(
  'four points of presence do so too with permits taken in advance',
  EXACTNESS,
  tryStretches({ ...OVER_REDIS, requests: 800, callers: 4, leases: 'auto' }),
)
for (const abortEvery of [0, 1]) {
  testScenario(
    `four gateways over Durable Objects admit no more than there is room for (ended every ${abortEvery} s)`,
    EXACTNESS,
    tryStretches({ ...OVER_OBJECTS, abortEvery }, [4, 8, 16]),
  )
}
