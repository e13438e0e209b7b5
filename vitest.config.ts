import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { cloudflareTest } from '@cloudflare/vitest-plugin'
import { defineConfig } from 'vitest/config'
import { LongestFirst } from './test/setup/longest-first.ts'
import { WORKER_LOG } from './test/setup/secret-watch.ts'

// In the environment, for the processes that the tests run in.
process.env[WORKER_LOG] ??= join(mkdtempSync(join(tmpdir(), 'sluice-worker-log-')), 'log')

// Each of the 200 processes that the tests start would compile the same modules.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, 'node_modules/.cache/compiled')

/** A slow machine is no failure: this is for what never ends. */
const TIMEOUT_MS = 180_000 * (process.env.FUZZ === 'long' ? 40 : 1)

/** Files share a worker, which takes a second or more to start; what one has put in place of something is taken away. */
const SHARED = { isolate: false, unstubGlobals: true, restoreMocks: true }

export default defineConfig({
  test: {
    // More than there are cores: many tests wait, for clocks or for other processes.
    maxWorkers: 6,
    sequence: { sequencer: LongestFirst },
    reporters: ['default', './test/setup/summary-reporter.ts'],
    projects: [
      {
        plugins: [
          cloudflareTest({
            main: './src/worker.ts',
            wrangler: { configPath: './wrangler.toml' },
          }),
        ],
        // workerd knows `await using`; what it would be replaced by is not found beside packages that are bundled.
        oxc: { target: 'esnext' },
        test: {
          name: 'workerd',
          ...SHARED,
          // Of CommonJS, which workerd is only given as a part of a bundle.
          deps: { optimizer: { ssr: { enabled: true, include: ['ipaddr.js'] } } },
          testTimeout: TIMEOUT_MS,
          hookTimeout: TIMEOUT_MS,
          include: ['test/{unit,contract,library}/**/*.test.ts', 'test/middleware/{any,workerd}/*.test.ts'],
          globalSetup: './test/setup/services.ts',
        },
      },
      {
        test: {
          name: 'node',
          // Node reads TypeScript itself, and keeps what it has compiled.
          experimental: { viteModuleRunner: false },
          ...SHARED,
          include: [
            'test/{command,contract,library,property,simulation,model,integration,e2e,tools,exactness,fuzz,faults,dodging,numbers,rules-spread}/**/*.test.ts',
            'test/middleware/{any,node}/*.test.ts',
          ],
          expect: { poll: { timeout: 60_000 } },
          globalSetup: ['./test/setup/services.ts', './test/setup/bundle.ts', './test/setup/fuzz.ts'],
          testTimeout: TIMEOUT_MS,
          hookTimeout: TIMEOUT_MS,
        },
      },
      {
        test: {
          name: 'package',
          ...SHARED,
          include: ['test/package/**/*.test.ts'],
          globalSetup: ['./test/setup/services.ts', './test/setup/packed.ts'],
          testTimeout: TIMEOUT_MS,
          hookTimeout: TIMEOUT_MS,
        },
      },
    ],
  },
})
