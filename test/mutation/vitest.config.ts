import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { SHARED, SLOW, shareEnvironment } from '../setup/shared-config.ts'
import { TESTS } from './folders.ts'

shareEnvironment()

const FOLDER = process.env.MUTATED_FOLDER ?? ''

/** The first test that fails ends the run of a mutant: short files come first. */
class ShortestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const findDuration = (file: TestSpecification) => this.ctx.cache.getTestSpecificationResult(file)?.duration ?? 0
    return files.toSorted((a, b) => findDuration(a) - findDuration(b))
  }
}

/** The fast tests of one folder that is mutated, in one project on Node. */
export default defineConfig({
  test: {
    name: 'mutation',
    ...SHARED,
    setupFiles: [...SHARED.setupFiles, './test/mutation/setup.ts'],
    experimental: { viteModuleRunner: false },
    tags: [SLOW],
    include: [...(TESTS[FOLDER] ?? [])],
    // Other stores have no scripts, and other clients the same.
    ...(FOLDER === 'lua' ? { testNamePattern: /@redis\/client|script in Redis/ } : {}),
    globalSetup: ['./test/setup/services.ts', './test/setup/fuzz.ts'],
    sequence: { sequencer: ShortestFirst },
  },
})
