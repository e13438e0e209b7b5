/**
 * The short form of `npm run test:dodging`: real frameworks, spelt paths and methods, and what was charged for them; and an
 * API that reads callers in all lenient ways.
 */
import { expect, inject, test } from 'vitest'
import { KINDS } from '../../support/lenient-readings.ts'
import { dodge } from './dodge.ts'
import { FRAMEWORKS } from './frameworks.ts'
import { dodgeIdentities } from './identities.ts'

const { seed } = inject('fuzz')
const bundle = inject('bundle')

test.each(FRAMEWORKS.filter(({ name }) => ['express5', 'fastify5', 'h3v1'].includes(name)))(
  '$name serves no spelling of a limited route that was not charged',
  async (framework) => {
    const { reached, bypasses } = await dodge(framework, { bundle, seed, spellings: 1_000 })
    expect(bypasses).toEqual([])
    expect(reached).toBeGreaterThan(100)
  },
)

test('a caller who has nothing left is not served by any spelling that some API takes for its identity', async () => {
  const findings = await dodgeIdentities(bundle, { seed, spellings: 300 })
  expect(findings.map(({ kind, dodges }) => [kind, dodges])).toEqual(KINDS.map((kind) => [kind, []]))
})
