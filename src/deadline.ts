export const TOO_LATE = Symbol('too late')

/**
 * Waits for work, but no longer than `timeoutMs` milliseconds. The work is not ended by that, but by the end of the
 * request that it belongs to; to end it at once would take a signal, which costs more to set up than to wait.
 * @returns what the work comes to, or `TOO_LATE`. @throws whatever the work throws in time
 */
export async function within<T>(timeoutMs: number, work: Promise<T>): Promise<T | typeof TOO_LATE> {
  const { promise: tooLate, resolve } = Promise.withResolvers<typeof TOO_LATE>()
  const timer = setTimeout(resolve, timeoutMs, TOO_LATE)
  try {
    return await Promise.race([work, tooLate])
  } finally {
    clearTimeout(timer)
  }
}
