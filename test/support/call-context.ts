import type { CallContext } from '../../src/runtime/call-context.ts'

/** @param background what goes on after the answer is put there */
export function callContext(background: Promise<unknown>[] = []): CallContext {
  return { waitUntil: (work) => background.push(work) }
}
