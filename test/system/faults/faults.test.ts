import { breakOneByOne } from './break-one-by-one.ts'
import { SHORT } from './scenario.ts'
import { SCENARIOS } from './scenarios.ts'

breakOneByOne(
  SHORT,
  SCENARIOS.filter(({ isOfTime, isLikeAnother }) => !isOfTime && !isLikeAnother),
)
