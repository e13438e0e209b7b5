import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { WORKER_LOG } from './secret-watch.ts'

/** Enough for a slow machine; a test that waits for what never comes ends long before. */
const TIMEOUT_MS = 60_000 * (process.env.FUZZ === 'long' ? 120 : 1)

/** Tests that `npm test` leaves to `npm run test:system -- slow`. */
export const SLOW = { name: 'slow', description: 'waits for real time, moves many bytes, or breaks what it runs on' }

export const REPORTERS = ['default', './test/setup/summary-reporter.ts']

/** Settings of every Vitest project. */
export const SHARED = {
  // Files share a worker, which takes a second or more to start; whatever a file has stubbed is restored.
  isolate: false,
  unstubGlobals: true,
  restoreMocks: true,
  testTimeout: TIMEOUT_MS,
  hookTimeout: TIMEOUT_MS,
  expect: { poll: { timeout: 40_000 } },
  setupFiles: ['./test/setup/seed.ts'],
}

/** Sets the variables that the processes of the tests, and those that they start, have in common. */
export function shareEnvironment(): void {
  process.env[WORKER_LOG] ??= join(mkdtempSync(join(tmpdir(), 'sluice-worker-log-')), 'log')
  // Each of the processes that the tests start would compile the same modules.
  process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, '../../node_modules/.cache/compiled')
}
