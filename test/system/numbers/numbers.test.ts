import { testScenario } from '../kit/scenario-test.ts'
import { NUMBERS } from './scenario.ts'

for (const options of [
  { store: 'redis', requests: 1_000 },
  // Each key is an object of its own, with a file of its own here.
  { store: 'durable-object', requests: 600 },
]) {
  const shows = 'the statistics equal what clients have seen, outcome by outcome, and give nobody away'
  testScenario(`over ${options.store}, ${shows}`, NUMBERS, [options])
}
