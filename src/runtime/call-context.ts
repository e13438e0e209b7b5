import type { Deadlines } from './deadlines.ts'

export interface CallContext {
  /** Lets work continue after the response. Failures are logged. */
  waitUntil(work: Promise<unknown>): void
  /** Shared by all calls until the response is made. */
  readonly deadlines: Deadlines
  /** True once the client has disconnected. */
  isClientGone?(): boolean
}
