import type { Operation } from './operation.ts'
import { policies } from './operations/policies.ts'
import { reset } from './operations/reset.ts'
import { live, status } from './operations/status.ts'
import { usage } from './operations/usage.ts'

/** All that the API can do, in the order of its document. */
export const OPERATIONS: readonly Operation[] = [status, live, policies, usage, reset]
