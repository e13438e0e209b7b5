import { breakOneByOne } from './break-one-by-one.ts'
import { SHORT } from './fault.ts'
import { listScenarios } from './scenario.ts'

breakOneByOne(
  SHORT,
  listScenarios(false).filter(({ isLikeAnother }) => !isLikeAnother),
)
