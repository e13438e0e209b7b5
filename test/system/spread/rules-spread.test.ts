import { testScenario } from '../kit/scenario-test.ts'
import { SPREAD } from './scenario.ts'

testScenario(
  'a block is in force at every point of presence, with no error meanwhile, and stays while Redis is dead',
  SPREAD,
  [{ points: 2, rate: 100, refreshMs: 300, judgesTime: 'no' }],
)
