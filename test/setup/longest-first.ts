import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files that wait much, or work long: begun last, they would be alone at the end. */
const LONGEST = [
  '/test/faults/',
  '/test/tools/dev',
  '/test/exactness/',
  '/test/e2e/dashboard/',
  // Install packages.
  '/test/package/',
  '/test/dodging/',
  '/test/e2e/',
  '/test/command/',
  '/test/property/',
  '/test/integration/',
  '/test/contract/',
  '/test/simulation/',
  '/test/unit/limit-object',
]

/** vitest learns from earlier runs which files take long; on a fresh machine there was none. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId, project }: TestSpecification) => {
      const index = LONGEST.findIndex((part) => moduleId.includes(part))
      const length = index < 0 ? LONGEST.length : index
      // A worker serves one project: each that follows on another costs seconds. Most files of this one are short.
      return project.name === 'workerd' ? length + LONGEST.length + 1 : length
    }
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b))
  }
}
