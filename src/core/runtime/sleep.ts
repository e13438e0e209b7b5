/** Waits for a time or for work, and gives up when it is told to. */
import { addAbortListener } from './abort-listeners.ts'
import { createSteadyClock } from './steady-clock.ts'

/** Longer timers fire at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1

/**
 * Sleeps for at least `durationMs`: the timers of Node may fire up to a millisecond early.
 * @throws the signal's reason, as soon as it is aborted
 */
export async function sleep(durationMs: number, signal?: AbortSignal): Promise<void> {
  const readPassedMs = createSteadyClock(() => performance.now())
  for (let remainingMs = durationMs; remainingMs > 0; remainingMs = durationMs - readPassedMs()) {
    signal?.throwIfAborted()
    await waitAtMost(new Promise(() => {}), Math.min(remainingMs, MAX_TIMER_MS), signal)
  }
}

/** Waits for work; undefined if it takes longer. @throws the signal's reason, as soon as it is aborted */
export function waitAtMost<T>(work: Promise<T>, durationMs: number, signal?: AbortSignal): Promise<T | undefined> {
  if (durationMs === Number.POSITIVE_INFINITY && !signal) return work
  return new Promise((resolve, reject) => {
    const end = (settle: () => void) => {
      clearTimeout(timer)
      stopListening?.()
      settle()
    }
    const giveUp = () => end(() => resolve(undefined))
    const timer = durationMs <= MAX_TIMER_MS ? setTimeout(giveUp, Math.ceil(durationMs)) : undefined
    const stopListening = signal && addAbortListener(signal, () => end(() => reject(signal.reason)))
    work.then(
      (value) => end(() => resolve(value)),
      (error) => end(() => reject(error)),
    )
  })
}
