import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { SHARED, SLOW, shareEnvironment } from '../setup/shared-config.ts'
import { TESTS } from './folders.ts'

shareEnvironment()

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
    include: [...(TESTS[process.env.MUTATED_FOLDER ?? ''] ?? [])],
    globalSetup: ['./test/setup/services.ts', './test/setup/fuzz.ts'],
    sequence: { sequencer: ShortestFirst },
  },
})
