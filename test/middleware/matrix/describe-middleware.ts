/** Tests the promises of every middleware, in each of its frameworks. */
import { describe } from 'vitest'
import type { Adapter } from './adapter.ts'
import { describeBodies } from './bodies.ts'
import { describeCallers, describeClaims } from './callers.ts'
import { describeCosts } from './costs.ts'
import { describeCounts } from './counts.ts'
import { describeDecisions } from './decisions.ts'
import { describeOptions } from './options.ts'
import { describeRefusals, describeResponses } from './responses.ts'
import { describeSlots } from './slots.ts'

export function describeMiddleware(adapters: readonly Adapter[]): void {
  describe.each(adapters)('$name', (adapter) => {
    describeDecisions(adapter)
    describeCallers(adapter)
    describeClaims(adapter)
    describeBodies(adapter)
    describeRefusals(adapter)
    describeResponses(adapter)
    describeCosts(adapter)
    describeSlots(adapter)
    describeCounts(adapter)
    describeOptions(adapter)
  })
}
