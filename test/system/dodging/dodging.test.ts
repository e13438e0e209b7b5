/** The short form of `npm run test:dodging`: real frameworks, spelt paths and methods, and what was charged for them. */
import { beforeAll, expect, inject, test } from 'vitest'
import { dodge } from './dodge.ts'
import { FRAMEWORKS, installFrameworks } from './frameworks.ts'

beforeAll(installFrameworks)

test.each(FRAMEWORKS.filter(({ name }) => ['express5', 'fastify5', 'h3v1'].includes(name)))(
  '$name serves no spelling of a limited route that was not charged',
  async (framework) => {
    const { seed } = inject('fuzz')
    const { reached, bypasses } = await dodge(framework, { bundle: inject('bundle'), seed, spellings: 1_000 })
    expect(bypasses).toEqual([])
    expect(reached).toBeGreaterThan(100)
  },
)
