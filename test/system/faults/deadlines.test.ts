import { breakOneByOne } from './break-one-by-one.ts'
import { SHORT_OF_TIME } from './fault.ts'
import { listScenarios } from './scenario.ts'

breakOneByOne(SHORT_OF_TIME, listScenarios(true))
