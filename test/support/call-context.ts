import { type CallContext, Deadlines } from '../../src/core/runtime/call-context.ts'

/** @param background what goes on after the answer is put there */
export function callContext(background: Promise<unknown>[] = []): CallContext {
  return { deadlines: Deadlines.createForOne(), waitUntil: (work) => background.push(work) }
}
