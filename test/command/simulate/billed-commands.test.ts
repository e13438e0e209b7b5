import { expect, test } from 'vitest'
import { createVirtualEngine, VirtualStore } from '../../../src/command/simulate/virtual-store.ts'
import type { DecisionRequest } from '../../../src/core/model/charge.ts'
import type { AlgorithmName } from '../../../src/core/model/limits.ts'
import { Deadlines } from '../../../src/core/runtime/call-context.ts'
import { LUA } from '../../../src/core/store/redis/more-lua.ts'
import { joinScript, listScriptArguments } from '../../../src/core/store/redis/script.ts'
import { createCharge, EVERY_ALGORITHM, take, withPolicy } from '../../support/charges.ts'
import { ownRedis, total } from '../../support/own-redis.ts'

const redis = ownRedis()

/** Asks Redis's clock, as the real one does, but goes by the test's. */
const script = joinScript('decide', EVERY_ALGORITHM, LUA, "redis.call('TIME') return tonumber(ARGV[#ARGV])")
const START_MS = 1_700_000_000_000

const MIXTURES: readonly (readonly AlgorithmName[])[] = [
  ['sliding-window'],
  ['token-bucket'],
  ['fixed-window'],
  ['quota'],
  ['sorted-set'],
  ['sliding-window', 'quota', 'token-bucket'],
]

test.each(MIXTURES.map((algorithms) => ({ algorithms, name: algorithms.join(' + ') })))(
  'VirtualStore.commands is what Redis counts: $name',
  async ({ algorithms }) => {
    const rules = algorithms.map((algorithm) =>
      createCharge(
        algorithm,
        algorithm === 'token-bucket'
          ? [{ limit: 15, windowMs: 100_000 }]
          : [
              { limit: 12, windowMs: 100_000 },
              { limit: 90, windowMs: 6_000_000 },
            ],
      ),
    )
    const store = new VirtualStore()
    let refused = 0
    const counts = await redis.billed(async () => {
      for (let i = 0; i < 300; i++) {
        // By virtual time, in windows so long that no key expires in Redis while the test runs.
        const nowMs = START_MS + (i * 40 + ((i * 37) % 29)) * 100
        store.advanceTo(nowMs)
        const { granted } = await store.decide(take(rules))
        refused += granted === 0 ? 1 : 0
        const args = [...listScriptArguments(take(rules)), nowMs * 1_000].map(String)
        await redis.client.eval(script, { keys: rules.map(({ key }) => key), arguments: args })
      }
    })
    expect(refused).toBeGreaterThan(0)
    expect(store.calls).toBe(300)
    expect(store.commands).toBe(total(counts))
  },
)

test('calls and commands of leased permits are those that Redis counts, or a few more', async () => {
  const rule = createCharge('sliding-window', [
    { limit: 400, windowMs: 1_000 },
    { limit: 20_000, windowMs: 60_000 },
  ])
  let calls = 0
  class ReplayedStore extends VirtualStore {
    override async decide(request: DecisionRequest) {
      calls++
      const args = [...listScriptArguments(request), Math.round(this.nowMs * 1_000)].map(String)
      await redis.client.eval(script, { keys: [rule.key], arguments: args })
      return super.decide(request)
    }
  }
  const store = new ReplayedStore()
  const engine = createVirtualEngine(store, 'auto')
  const counts = await redis.billed(async () => {
    for (let i = 0; i < 1_000; i++) {
      store.advanceTo(START_MS + i * 7)
      const unfinished: Promise<unknown>[] = []
      const context = {
        deadlines: Deadlines.createForOne(),
        waitUntil: (work: Promise<unknown>) => void unfinished.push(work),
      }
      expect((await engine.decide([withPolicy(rule)], context)).granted).toBe(1)
      await Promise.all(unfinished)
    }
  })
  expect(store.calls).toBe(calls)
  expect(calls).toBeLessThan(300)
  const billed = total(counts)
  expect(store.commands).toBeGreaterThanOrEqual(billed)
  expect(store.commands).toBeLessThan(billed * 1.05)
})
