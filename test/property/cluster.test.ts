/** Decisions over several places, slots of a cluster or databases, equal those of one script. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import type { Counts } from '../../src/core/model/limits.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import {
  addPenalties,
  anyCharge,
  anyDemands,
  anyPenalties,
  backAndForthUs,
  counting,
  demanded,
  LONG,
  MOST_RULES,
  START_MS,
} from '../support/arbitraries.ts'
import { EVERY_ALGORITHM, take } from '../support/charges.ts'
import { ClusterScript } from '../support/cluster-script.ts'
import { expectProperty } from '../support/property.ts'
import { MovingShards, Shards } from '../support/shard-scripts.ts'

const anyCounts = fc.array(fc.constantFrom<Counts>('requests', 'requests', 'failures', 'new-identities'), {
  minLength: MOST_RULES,
  maxLength: MOST_RULES,
})
/** Half of them tell new identities. */
const anyAlgorithm = fc.oneof(fc.constant('sliding-window' as const), fc.constantFrom(...EVERY_ALGORITHM))
const anyCharges: fc.Arbitrary<StoreCharge[]> = fc
  .array(fc.tuple(anyAlgorithm.chain(anyCharge), fc.integer({ min: 1, max: 3 })), {
    minLength: 2,
    maxLength: MOST_RULES,
  })
  .map((drawn) => drawn.map(([charge, slot], index) => ({ ...charge, key: `test:${index}:{${slot}}` })))

test.each([
  ['slots', ClusterScript],
  ['databases', Shards],
  ['databases of which some join and some leave', MovingShards],
] as const)('a decision over several %s equals one script call, whatever the request', async (_name, Places) => {
  const action = fc.record({
    gapUs: backAndForthUs,
    action: fc.constantFrom('take', 'take', 'take', 'take-up-to', 'peek', 'record'),
    permits: fc.integer({ min: 1, max: 5 }),
    leaseMs: fc.constantFrom(0, 0, 0, 40),
    demands: anyDemands,
    penalties: anyPenalties,
  })
  await expectProperty(
    fc.asyncProperty(anyCharges, anyCounts, fc.array(action, LONG), async (charges, counts, actions) => {
      let nowUs = START_MS * 1000
      const places = new Places()
      const implementation = new MemoryStore(() => nowUs / 1000)
      const configured = charges.map((charge) => ({ before: charge, after: charge }))
      for (const { gapUs, action, permits, leaseMs, demands, penalties } of actions) {
        nowUs += gapUs
        const requested = addPenalties(counting(demanded(configured, demands), counts), penalties)
        const request = take(requested, { action, permits, leaseMs })
        expect(await places.decide(request, nowUs)).toEqual(await implementation.decide(request))
      }
    }),
    400,
  )
})
