import { FRONT_FAULTS } from './front-faults.ts'
import { REDIS_FAULTS } from './redis-faults.ts'
import type { Scenario } from './scenario.ts'
import { UPSTREAM_FAULTS } from './upstream-faults.ts'

/** Everything that breaks, in the order in which it does. */
export const SCENARIOS: readonly Scenario[] = [...FRONT_FAULTS, ...REDIS_FAULTS, ...UPSTREAM_FAULTS]
