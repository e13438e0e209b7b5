/** The parts that the tests of one file share. */
import { afterAll, beforeAll } from 'vitest'
import type { Part } from './parts.ts'

/**
 * Starts a part before the first test of a file or of a `describe()`, and ends it after the last. What is shared first is
 * started first and ended last.
 * @param end default: `stop()`
 * @returns a stand-in, which has what the part has as soon as that is started
 */
export function share<Shared extends object>(
  start: () => Shared | Promise<Shared>,
  end: (shared: Shared) => unknown = (shared) => (shared as Part).stop(),
): Shared {
  let shared: Shared | undefined
  beforeAll(async () => {
    shared = await start()
  })
  afterAll(async () => {
    if (shared) await end(shared)
  })
  return new Proxy({} as Shared, {
    get(_, name) {
      const value = Reflect.get(shared as Shared, name)
      return typeof value === 'function' ? value.bind(shared) : value
    },
    set: (_, name, value) => Reflect.set(shared as Shared, name, value),
    has: (_, name) => Reflect.has(shared as Shared, name),
  })
}
