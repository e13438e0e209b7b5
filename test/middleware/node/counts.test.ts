/** An app that resets what its own middleware has counted, while it serves. */
import { describe, expect, test } from 'vitest'
import { MemoryStore } from '../../../src/core/store/memory/memory-store.ts'
import { sluice } from '../../../src/node.ts'
import { send, sendInTurn } from '../../support/http-client.ts'
import { X } from '../matrix/adapter.ts'
import { FRAMEWORKS } from '../matrix/node-adapters.ts'

describe.each(FRAMEWORKS)('$name', ({ listen }) => {
  test('a caller that is reset is admitted at once, whatever refusals are remembered', async () => {
    const memory = new MemoryStore(Date.now)
    const store = { isRemote: true, timeoutMs: 1_000, open: () => memory }
    const policies = [{ name: 'api', limits: '2/1h', by: 'token', penalty: '2h', match: '/' }]
    const limit = sluice({ policies, store, log() {} })
    const server = await listen([limit], {
      'GET /': (_, res) => res.end(),
      'GET /reset': (_, res) => limit.reset('X').then(() => res.end()),
      'GET /peek': (_, res) => limit.peek('X').then((decision) => res.end(JSON.stringify(decision))),
    })
    const readPeek = async () => JSON.parse(String((await send(server, { path: '/peek' })).body))
    expect(await sendInTurn(server, [X, X, X, X])).toEqual([200, 200, 429, 429])
    expect(await readPeek()).toMatchObject({ granted: false, charged: 0, limits: [{ penaltyMs: expect.any(Number) }] })
    expect(await sendInTurn(server, [{ path: '/reset' }, X, X, X])).toEqual([200, 200, 200, 429])
  })
})
