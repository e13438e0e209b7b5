/** Calls a limiter of rate-limiter-flexible, which refuses by throwing what it knows of the limits. */
export function consumeFrom(limiter: {
  consume(caller: string): Promise<unknown>
}): (caller: string) => Promise<boolean> {
  return async (caller) => {
    try {
      await limiter.consume(caller)
      return true
    } catch (refusal) {
      // An error is a failure; anything else describes the limits.
      if (refusal instanceof Error) throw refusal
      return false
    }
  }
}
