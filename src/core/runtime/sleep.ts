/** Waits for a time or for work, and gives up when it is told to. */
import { createSteadyClock } from './clocks.ts'

/** Longer timers fire at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1

/** A clock that a sleep ends by, too: tests move theirs, and may leave `performance` or timers as they are. */
export interface SleepClock {
  readonly readPassedMs: () => number
  /** No timer follows it: it is read at least this often. */
  readonly pollMs: number
}

/** How often a clock of the program is read: no timer follows it. */
const POLL_MS = 100

/** Makes the clock by which a sleep ends, from now on. @param now of the program, if it replaces the machine's */
export function createSleepClock(now?: () => number): SleepClock {
  const pollMs = now ? POLL_MS : Number.POSITIVE_INFINITY
  return { readPassedMs: createSteadyClock(now ?? (() => Date.now())), pollMs }
}

/** Timers fire early by so much, or by more where a test has replaced them: then time goes with them. */
export const MAX_EARLY_MS = 1

/**
 * Sleeps for at least `durationMs`: the timers of Node may fire up to a millisecond early.
 * @throws the signal's reason, as soon as it is aborted
 */
export async function sleep(durationMs: number, signal?: AbortSignal, clock?: SleepClock): Promise<void> {
  const readPassedMs = createSteadyClock(() => performance.now())
  let aheadMs = 0
  const computeRemainingMs = () => durationMs - Math.max(readPassedMs() + aheadMs, clock?.readPassedMs() ?? 0)
  for (let remainingMs = computeRemainingMs(); remainingMs > 0; remainingMs = computeRemainingMs()) {
    signal?.throwIfAborted()
    const waitMs = Math.min(remainingMs, clock?.pollMs ?? MAX_TIMER_MS, MAX_TIMER_MS)
    const firesMs = readPassedMs() + waitMs
    await waitAtMost(new Promise(() => {}), waitMs, signal)
    const earlyMs = firesMs - readPassedMs()
    if (earlyMs > MAX_EARLY_MS) aheadMs += earlyMs
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

/** One listener for each signal: Node warns of more than ten. */
const listeners = new WeakMap<AbortSignal, Set<() => void>>()

/** @returns a function that removes it */
export function addAbortListener(signal: AbortSignal, abort: () => void): () => void {
  const known = listeners.get(signal)
  const all = known ?? new Set()
  if (!known) {
    listeners.set(signal, all)
    signal.addEventListener('abort', () => {
      for (const each of all) each()
    })
  }
  all.add(abort)
  return () => all.delete(abort)
}
