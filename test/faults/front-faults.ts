import { FAULTS, type FaultName } from '../../tools/faults.ts'
import type { Scenario } from './scenario.ts'
import { type StoreFault, storeFault } from './store-fault.ts'

/** Those of a front that still serves, if late or by more calls, and those that hit some calls only. */
const DECIDES: Partial<Record<FaultName, StoreFault['decides']>> = {
  'latency with jitter': 'shared',
  'latency around the deadline': 'either',
  'commands late and out of order': 'either',
  'NOSCRIPT each time': 'shared',
}

/** Those by which the store misses its deadline. */
const isOfTime = (fault: FaultName) =>
  ['hang', 'delay'].includes(FAULTS[fault].kind) || fault === 'latency around the deadline'

/** Each fault of the faulty REST front, on every call; then one that hits some of them. */
export const FRONT_FAULTS: readonly Scenario[] = [
  ...(Object.keys(FAULTS) as FaultName[]).map((fault) =>
    storeFault({
      fault: `front: ${fault}`,
      decides: DECIDES[fault] ?? 'alone',
      isOfTime: isOfTime(fault),
      begin: ({ front }) => front.inject(FAULTS[fault]),
      end: ({ front }) => front.inject(undefined),
    }),
  ),
  storeFault({
    fault: 'front: a tenth of the calls reset mid-body',
    decides: 'either',
    begin: ({ front }) => front.inject(FAULTS['reset mid-body'], 0.1),
    end: ({ front }) => front.inject(undefined),
  }),
]
