import { cloudflareTest } from '@cloudflare/vitest-plugin'
import { defineConfig } from 'vitest/config'
import { REPORTERS, SHARED, SLOW, shareEnvironment } from './test/setup/shared-config.ts'

shareEnvironment()

/** What `npm test` runs: the same on every machine, whatever its pace and the time of day. */
export default defineConfig({
  test: {
    // More than there are cores: many tests wait for other processes.
    maxWorkers: 4,
    tags: [SLOW],
    reporters: REPORTERS,
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
          include: ['test/{unit,contract,library}/**/*.test.ts', 'test/middleware/{any,workerd}/*.test.ts'],
          globalSetup: ['./test/setup/services.ts', './test/setup/fuzz.ts'],
        },
      },
      {
        test: {
          name: 'node',
          ...SHARED,
          // Node reads TypeScript itself, and keeps what it has compiled.
          experimental: { viteModuleRunner: false },
          include: [
            'test/{command,contract,e2e,fuzz,integration,library,property,tools}/**/*.test.ts',
            'test/middleware/{any,node}/*.test.ts',
          ],
          globalSetup: ['./test/setup/services.ts', './test/setup/bundle.ts', './test/setup/fuzz.ts'],
        },
      },
    ],
  },
})
