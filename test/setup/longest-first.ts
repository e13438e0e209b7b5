import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files that wait much, or work long: begun last, they would be alone at the end. */
const LONGEST = [
  '/test/faults/',
  '/test/tools/dev',
  '/test/exactness/',
  // Install packages.
  '/test/package/',
  '/test/dodging/',
  '/test/e2e/',
  '/test/property/',
  '/test/contract/',
  '/test/simulation/',
]

/** vitest learns from earlier runs which files take long; on a fresh machine there was none. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const index = LONGEST.findIndex((part) => moduleId.includes(part))
      return index < 0 ? LONGEST.length : index
    }
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b))
  }
}
