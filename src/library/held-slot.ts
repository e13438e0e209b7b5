import type { Hold } from '../engine/hold.ts'
import type { CallContext } from '../runtime/call-context.ts'
import type { Decision } from './decision.ts'

/**
 * The result of a request for a slot. If it is granted, the slot is held and renewed until it is released, which
 * `await using` does at the end of the block.
 */
export interface Slot extends Decision, AsyncDisposable {
  /** Gives the slot back: once, however often it is called. It never fails, and does nothing if no slot was granted. */
  release(): Promise<void>
}

/** How often a slot is renewed within the time that it would otherwise last. */
const RENEWALS = 3

export function slotOf(decision: Decision, hold: Hold | undefined, context: CallContext): Slot {
  const renewal = hold && setInterval(() => context.waitUntil(hold.renew()), hold.deadlineMs / RENEWALS)
  // On Node, a slot alone does not keep a process running.
  if (typeof renewal === 'object') renewal.unref()
  let released: Promise<void> | undefined
  async function giveBack(): Promise<void> {
    clearInterval(renewal)
    if (!hold) return
    const work = hold.release()
    context.waitUntil(work)
    await work.catch(() => {})
  }
  const release = () => {
    released ??= giveBack()
    return released
  }
  return { ...decision, release, [Symbol.asyncDispose]: release }
}
