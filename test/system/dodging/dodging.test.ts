/**
 * The short form of `npm run test:dodging`: real frameworks, spelt paths and methods, and what was charged for them; and an
 * API that reads callers in all lenient ways.
 */
import { once } from 'node:events'
import type { AddressInfo, Server } from 'node:net'
import { beforeAll, expect, inject, onTestFinished, test } from 'vitest'
import { type SluiceOptions as HonoOptions, sluice as honoSluice } from '../../../src/hono.ts'
import { type SluiceOptions, sluice } from '../../../src/node.ts'
import { KINDS } from '../../support/lenient-readings.ts'
import { dodge, dodgeAt } from './dodge.ts'
import { FRAMEWORKS, installFrameworks } from './frameworks.ts'
import { dodgeIdentities } from './identities.ts'
import { listPolicies } from './routes.ts'

const { seed, scale } = inject('fuzz')
const bundle = inject('bundle')
const choose = (...names: readonly string[]) => FRAMEWORKS.filter(({ name }) => names.includes(name))

beforeAll(installFrameworks)

test.each(choose('express5', 'fastify5', 'h3v1'))(
  '$name serves no spelling of a limited route that was not charged',
  async (framework) => {
    const { reached, bypasses } = await dodge(framework, { bundle, seed, spellings: 1_000 })
    expect(bypasses).toEqual([])
    expect(reached).toBeGreaterThan(100)
  },
)

// The middleware sees targets as they were sent.
test.each(choose('express5', 'fastify5', 'hono'))(
  '$name with the middleware inside serves no spelling of a limited route that was not charged',
  async ({ name, takesNothing }) => {
    const { APIS } = await import(import.meta.resolve('./apis/main.js'))
    const options: unknown = { policies: listPolicies({ takesNothing }), log: () => {} }
    const limit = name === 'hono' ? honoSluice(options as HonoOptions) : sluice(options as SluiceOptions)
    const server: Server & { closeAllConnections(): void } = await APIS[name](limit)
    onTestFinished(async () => {
      const closed = once(server.close(), 'close')
      server.closeAllConnections()
      await closed
    })
    const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    const { reached, bypasses } = await dodgeAt(url, { seed, spellings: Math.ceil(1_000 * scale) })
    expect(bypasses).toEqual([])
    expect(reached).toBeGreaterThan(100)
  },
)

test('a caller who has nothing left is not served by any spelling that some API takes for its identity', async () => {
  const findings = await dodgeIdentities(bundle, { seed, spellings: 300 })
  expect(findings.map(({ kind, dodges }) => [kind, dodges])).toEqual(KINDS.map((kind) => [kind, []]))
})
