import { FAULTS, type FaultName } from '../../../tools/faults.ts'
import type { Scenario } from './fault.ts'
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

/** To Sluice one with another fault of the front: an error's status, a body that is no reply, a reply that is no decision. */
const IS_LIKE_ANOTHER = new Set<FaultName>([
  ...(['status 400', 'status 401', 'status 503', 'HTML body, status 502', 'empty body'] as const),
  ...(['object in place of an array', 'too few integers', 'strings for integers', 'floats for integers'] as const),
  ...(['negative numbers', 'base64 not asked for'] as const),
])

/** Each fault of the faulty REST front, on every call; then one that hits some of them. */
export const FRONT_FAULTS: readonly Scenario[] = [
  ...(Object.keys(FAULTS) as FaultName[]).map((fault) =>
    storeFault({
      fault: `front: ${fault}`,
      decides: DECIDES[fault] ?? 'alone',
      isOfTime: isOfTime(fault),
      isLikeAnother: IS_LIKE_ANOTHER.has(fault),
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
