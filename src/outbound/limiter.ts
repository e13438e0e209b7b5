/** What the calling side needs of a limiter: `createLimiter()` makes one. */
export interface OutboundLimiter {
  /**
   * Charges `cost` units, or nothing.
   * @param options.cost units, an integer from 1; default 1
   */
  take(identity: string, options?: { readonly cost?: number }): Promise<OutboundDecision>
}

export interface OutboundDecision {
  readonly granted: boolean
  /** Milliseconds after which the same call is granted if nobody else is before it; 0 if it was granted. */
  readonly retryAfterMs: number
}
