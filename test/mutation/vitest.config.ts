import { defineConfig } from 'vitest/config'
import { SHARED, SLOW, shareEnvironment } from '../setup/shared-config.ts'
import { TESTS } from './folders.ts'

shareEnvironment()

/** The fast tests of one folder that is mutated, in one project on Node. */
export default defineConfig({
  test: {
    name: 'mutation',
    ...SHARED,
    experimental: { viteModuleRunner: false },
    tags: [SLOW],
    include: [...(TESTS[process.env.MUTATED_FOLDER ?? ''] ?? [])],
    globalSetup: ['./test/setup/services.ts', './test/setup/fuzz.ts'],
  },
})
