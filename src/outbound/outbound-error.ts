/**
 * - `WAIT_TOO_LONG`: the call cannot be made before its deadline, as far as is known now.
 * - `QUEUE_FULL`: too many calls wait, and none of them is less important than this one.
 */
export type OutboundErrorCode = 'WAIT_TOO_LONG' | 'QUEUE_FULL'

/** A call that was not made. Nothing was sent for it since it was last allowed to be. */
export class OutboundError extends Error {
  override readonly name = 'OutboundError'
  readonly code: OutboundErrorCode
  /** Milliseconds after which the call may be made at the earliest, where that is known. */
  readonly retryAfterMs: number | undefined

  constructor(code: OutboundErrorCode, message: string, retryAfterMs?: number) {
    super(message)
    this.code = code
    this.retryAfterMs = retryAfterMs
  }
}
