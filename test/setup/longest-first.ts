import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files that wait much, or work long: begun last, they would be alone at the end. */
const LONGEST = [
  '/test/faults/',
  '/test/package/',
  '/test/e2e/dashboard/',
  '/test/numbers/',
  '/test/model/',
  '/test/exactness/',
  '/test/tools/dev',
  '/test/contract/',
  '/test/dodging/',
  '/test/simulation/',
  '/test/e2e/',
  '/test/property/',
  '/test/command/',
  '/test/integration/',
]

/** The same of those that run in workerd, where most are short. */
const LONGEST_IN_WORKERD = ['/test/contract/store', '/test/unit/limit-object', '/test/contract/']

/** vitest learns from earlier runs which files take long; on a fresh machine there was none. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return (await super.sort(files)).toSorted((a, b) => rankOf(a) - rankOf(b))
  }
}

/**
 * A worker serves one project, and each that follows on another costs seconds: those of one project come together. Those
 * in workerd come first, so that what waits there for a clock does so while others work.
 */
function rankOf({ moduleId, project }: TestSpecification): number {
  if (project.name === 'workerd') return placeIn(LONGEST_IN_WORKERD, moduleId) - LONGEST_IN_WORKERD.length - 1
  return placeIn(LONGEST, moduleId)
}

function placeIn(parts: readonly string[], moduleId: string): number {
  const index = parts.findIndex((part) => moduleId.includes(part))
  return index < 0 ? parts.length : index
}
