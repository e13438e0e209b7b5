/** The longest that a timer can be set to. */
const LONGEST_MS = 2 ** 31 - 1

/**
 * Sleeps for no less than `durationMs`: the timers of Node may fire up to a millisecond early.
 * @throws the signal's reason, as soon as it is aborted
 */
export async function sleep(durationMs: number, signal?: AbortSignal): Promise<void> {
  const endMs = performance.now() + durationMs
  for (let leftMs = durationMs; leftMs > 0; leftMs = endMs - performance.now()) {
    await sleepOnce(Math.min(Math.ceil(leftMs), LONGEST_MS), signal)
  }
}

function sleepOnce(durationMs: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const onAbort = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    }, durationMs)
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}
