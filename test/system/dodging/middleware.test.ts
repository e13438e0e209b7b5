/** Tries the same spellings on the middleware in each framework, which sees targets as they were sent. */
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, inject, onTestFinished, test } from 'vitest'
import { type SluiceOptions as HonoOptions, sluice as honoSluice } from '../../../src/hono.ts'
import { type SluiceOptions, sluice } from '../../../src/node.ts'
import { dodgeAt } from './dodge.ts'
import { FRAMEWORKS } from './frameworks.ts'
import { listPolicies } from './routes.ts'

test.each(FRAMEWORKS.filter(({ name }) => ['express5', 'fastify5', 'hono'].includes(name)))(
  '$name serves no spelling of a limited route that was not charged',
  async ({ name, takesNothing }) => {
    const { APIS } = await import(import.meta.resolve('./apis/main.js'))
    const options: unknown = { policies: listPolicies({ takesNothing }), log: () => {} }
    const limit = name === 'hono' ? honoSluice(options as HonoOptions) : sluice(options as SluiceOptions)
    const server: Server = await APIS[name](limit)
    onTestFinished(async () => {
      const closed = once(server.close(), 'close')
      server.closeAllConnections()
      await closed
    })
    const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    const { seed, scale } = inject('fuzz')
    const { reached, bypasses } = await dodgeAt(url, { seed, spellings: Math.ceil(1_000 * scale) })
    expect(bypasses).toEqual([])
    expect(reached).toBeGreaterThan(100)
  },
)
