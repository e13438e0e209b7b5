import { breakOneByOne } from './break-one-by-one.ts'
import { SHORT_OF_TIME } from './scenario.ts'
import { SCENARIOS } from './scenarios.ts'

breakOneByOne(
  SHORT_OF_TIME,
  SCENARIOS.filter(({ isOfTime }) => isOfTime),
)
