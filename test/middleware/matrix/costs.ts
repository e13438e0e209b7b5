/** The law of costs: what is admitted is charged what the API says that it has used, or what the policy says of the untold. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { expectProperty } from '../../support/property.ts'
import { type Adapter, type Handler, start, streamChunks } from './adapter.ts'
import {
  ACTUAL_COST,
  type CostCase,
  costCase,
  isReadable,
  judgeCharge,
  makeAnswer,
  recordStore,
  UNTOLD,
} from './cost-cases.ts'

const POLICIES = [
  { name: 'tokens', limits: '1000000000/1d', algorithm: 'quota', actual_cost: ACTUAL_COST, untold: UNTOLD },
  { name: 'slots', limits: '9', algorithm: 'concurrency' },
] as const

export function describeCosts(adapter: Adapter): void {
  test('charges what an answer says in any form, or what its policy says, and says so', {
    timeout: 120_000,
  }, async () => {
    const { state, store } = recordStore()
    const cases = new Map<string, CostCase>()
    const answer: Handler = ({ path }) => {
      const { status, headers, chunks } = makeAnswer(cases.get(path) as CostCase)
      return new Response(chunks.length > 0 ? streamChunks(chunks) : null, { status, headers })
    }
    const lines: { readonly event?: unknown }[] = []
    const log = (_: string, line: object) => lines.push(line)
    const { clock, send } = await start(adapter, { policies: POLICIES, store, log } as never, answer)
    let sent = 0
    await expectProperty(
      fc.asyncProperty(costCase, async (own) => {
        const path = `/${++sent}`
        cases.set(path, own)
        Object.assign(state, { charged: 0, released: 0 })
        lines.length = 0
        // Later than the last line, after which others of its kind are left out for a second.
        clock.nowMs += 2_000
        const response = await send({ path, method: own.method, headers: { Authorization: 'Bearer X' } })
        if (own.leaves) {
          const reader = response.body?.getReader()
          await reader?.read()
          await reader?.cancel()
        } else await response.arrayBuffer()
        // A slot is free when the cost is known.
        await expect.poll(() => state.released, { timeout: 35_000, interval: 2 }).toBe(1)
        const untold = lines.filter(({ event }) => event === 'cost_untold').length
        judgeCharge({ used: own.used, isKnown: isReadable(own) && !own.leaves, charged: state.charged, untold })
      }),
      4_000,
      0.15,
    )
  })
}
