/** Calls functions of a program that only look on: what they throw is their own, and changes nothing. */
import type { Log } from './log.ts'

type Hook<Args extends unknown[]> = ((...args: Args) => void) | undefined

/** @returns calls `hook`, which may be asynchronous, and logs what it throws; undefined without one */
export function createHook<Args extends unknown[]>(option: string, hook: Hook<Args>, log: Log): Hook<Args> {
  const logError = (error: unknown) =>
    log('error', {
      event: 'background_error',
      message: `${option}: ${error instanceof Error ? error.message : 'failed'}`,
    })
  return hook && ((...args) => void (async () => hook(...args))().catch(logError))
}
