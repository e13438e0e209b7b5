import type { DecisionTrace } from '../engine/limiter.ts'
import type { Verdict } from '../model/verdict.ts'
import type { ReceivedRequest } from '../request/received-request.ts'
import type { CallContext } from '../runtime/call-context.ts'

/** Something that happens to a request. */
export interface Observed {
  readonly request: ReceivedRequest
  readonly verdict: Verdict
  readonly trace: DecisionTrace
}

/** Is told what happens to each request, while it happens: it must be quick, wait for nothing and not throw. */
export interface Observer {
  /** What was decided. It is told before anything answers, because the client may go away meanwhile. */
  decided(observed: Observed, context: Pick<CallContext, 'waitUntil'>): void
  /** The status of the response to a request that was admitted. */
  answered(observed: Observed, status: number, context: Pick<CallContext, 'waitUntil'>): void
  /** The request was refused because it cannot be read, or the gateway itself has failed on it. */
  undecided(outcome: 'bad_request' | 'failed', context: Pick<CallContext, 'waitUntil'>): void
}
