/** The longest that a timer can be set to. */
const LONGEST_MS = 2 ** 31 - 1

/** @throws the signal's reason, as soon as it is aborted */
export async function sleep(durationMs: number, signal: AbortSignal | undefined): Promise<void> {
  for (let leftMs = durationMs; leftMs > 0; leftMs -= LONGEST_MS) {
    await sleepOnce(Math.min(leftMs, LONGEST_MS), signal)
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
