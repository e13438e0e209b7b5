import { testScenario } from '../kit/scenario-test.ts'
import { PLACE_NAMES } from './places.ts'
import { HISTORIES } from './scenario.ts'

for (const store of PLACE_NAMES) {
  const sizes = [4_000, 12_000].map((requests) => ({ store, requests, lanes: 12 }))
  testScenario(`${store} answers calls under load, with faults, as if they came one after the other`, HISTORIES, sizes)
}
