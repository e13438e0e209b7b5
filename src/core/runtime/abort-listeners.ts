/** Signals that many calls share. */

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
