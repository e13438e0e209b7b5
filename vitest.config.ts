import { mkdtempSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { cloudflareTest } from '@cloudflare/vitest-plugin'
import { defineConfig } from 'vitest/config'
import { WORKER_LOG } from './test/setup/secret-watch.ts'

// In the environment, for the processes that the tests run in.
process.env[WORKER_LOG] ??= join(mkdtempSync(join(tmpdir(), 'sluice-worker-log-')), 'log')

/** Imports Lua as text, as the rule in wrangler.toml does for the Worker. */
const luaText = {
  name: 'lua-text',
  enforce: 'pre' as const,
  async load(id: string) {
    return id.endsWith('.lua') ? `export default ${JSON.stringify(await readFile(id, 'utf8'))}` : undefined
  },
}

export default defineConfig({
  test: {
    reporters: ['default', './test/setup/summary-reporter.ts'],
    projects: [
      {
        plugins: [
          cloudflareTest({
            wrangler: { configPath: './wrangler.toml' },
          }),
        ],
        test: {
          name: 'workerd',
          // A slow machine is no failure.
          testTimeout: 30_000,
          include: ['test/unit/**/*.test.ts', 'test/contract/**/*.test.ts'],
          globalSetup: './test/setup/services.ts',
        },
      },
      {
        plugins: [luaText],
        test: {
          name: 'node',
          include: ['test/{property,simulation,integration,e2e,tools,exactness,fuzz}/**/*.test.ts'],
          globalSetup: ['./test/setup/services.ts', './test/setup/bundle.ts', './test/setup/fuzz.ts'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        plugins: [luaText],
        test: {
          name: 'faults',
          include: ['test/faults/**/*.test.ts'],
          globalSetup: './test/setup/bundle.ts',
          testTimeout: 60_000,
          hookTimeout: 60_000,
          // It counts in milliseconds: after all others, which would take the machine from it.
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
})
