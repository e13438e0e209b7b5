import { defineConfig } from 'vitest/config'
import { REPORTERS, SHARED, shareEnvironment } from './test/setup/shared-config.ts'
import { PROJECTS } from './test/system/parts.ts'

shareEnvironment()

/** What `npm run test:system` runs: a project a part, one after the other. */
export default defineConfig({
  test: {
    maxWorkers: 2,
    reporters: REPORTERS,
    projects: PROJECTS.map(({ name }) => ({
      test: {
        name,
        ...SHARED,
        experimental: { viteModuleRunner: false },
        include: [
          `test/system/${name}/**/*.test.ts`,
          // The contract of limits holds over a cluster, too.
          ...(name === 'cluster' ? ['test/contract/!(counters|documents).test.ts'] : []),
        ],
        testTimeout: 180_000,
        hookTimeout: 180_000,
        // What a test waits for, a busy machine may be late with.
        expect: { poll: { timeout: 150_000 } },
        globalSetup: [
          './test/setup/services.ts',
          './test/setup/bundle.ts',
          './test/setup/fuzz.ts',
          ...(['cluster', 'dodging'].includes(name) ? [`./test/setup/${name}.ts`] : []),
          ...(['package', 'frameworks', 'guides'].includes(name) ? ['./test/setup/packed.ts'] : []),
        ],
      },
    })),
  },
})
