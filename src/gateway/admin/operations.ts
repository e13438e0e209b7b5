/** Lists the operations of the admin API. */
import type { Operation } from './operation.ts'
import { diff, policies, push, validate } from './operations/policies.ts'
import { allow, block, override, rules } from './operations/rules.ts'
import { history, statistics } from './operations/statistics.ts'
import { live, status } from './operations/status.ts'
import { reset, usage } from './operations/usage.ts'
import { rollback, version, versions } from './operations/versions.ts'

export const OPERATIONS: readonly Operation[] = [
  ...[status, live, statistics],
  ...[usage, reset, history],
  ...[rules, block, allow, override],
  ...[policies, validate, diff, push],
  ...[versions, version, rollback],
]
