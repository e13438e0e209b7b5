import type { Deadlines } from './deadlines.ts'

/** What a request lends to the calls that are made for it. */
export interface CallContext {
  /** Lets work go on after the response. Failures are logged. */
  waitUntil(work: Promise<unknown>): void
  /** Those of the request, until its response is made. */
  readonly deadlines: Deadlines
  /** Whether nobody waits for the response any more. Left out, somebody does. */
  isClientGone?(): boolean
}
