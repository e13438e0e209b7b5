export interface CallContext {
  /** Lets work continue after the response. Failures are logged. */
  waitUntil(work: Promise<unknown>): void
  /** True once the client has disconnected. */
  isClientGone?(): boolean
}
