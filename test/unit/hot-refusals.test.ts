/** What many isolates tell of one hot identity near its limit, most of it without a call. */
import { expect, test } from 'vitest'
import { withIsolateMemory } from '../../src/core/engine/stages/isolate-memory.ts'
import { withLeases } from '../../src/core/engine/stages/leases.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { callContext } from '../support/call-context.ts'
import { createCharge, storeWith, take } from '../support/charges.ts'

const START_MS = 1_700_000_000_000
const ISOLATES = 150

test.each([
  ['one charge', 1],
  ['three charges', 3],
])(
  '150 isolates tell of a hot identity whole milliseconds, and a second too long at most: %s',
  async (_name, count) => {
    const clock = { now: START_MS }
    const memory = new MemoryStore(() => clock.now)
    let calls = 0
    const store = storeWith({
      async decide(request) {
        calls++
        return memory.decideNow(request)
      },
    })
    const options = { repeats: 'certain', leases: withLeases('auto'), now: () => clock.now, timeoutMs: 500 } as const
    const isolates = Array.from({ length: ISOLATES }, () => withIsolateMemory(store, options))
    const charges = Array.from({ length: count }, () =>
      createCharge('sliding-window', [{ limit: 8_000, windowMs: 20_000 }]),
    )
    const request = take(charges)
    const waits: { readonly waitMs: number; readonly excess: number }[] = []
    // 800 requests a second, of which half fit.
    for (let index = 0; index < 24_000; index++) {
      clock.now = START_MS + Math.floor(index * 1.25)
      const before = calls
      const background: Promise<unknown>[] = []
      const decision = await isolates[(index * 37 + Math.floor(index / ISOLATES)) % ISOLATES]?.decide(
        request,
        callContext(background),
      )
      await Promise.all(background)
      if (decision?.granted !== 0 || calls > before) continue
      const waitMs = Math.max(...decision.usage.flat().map(({ retryAfterMs }) => retryAfterMs))
      const { usage } = memory.decideNow({ ...request, action: 'peek' })
      waits.push({ waitMs, excess: waitMs - Math.max(...usage.flat().map(({ retryAfterMs }) => retryAfterMs)) })
    }
    expect(waits.length).toBeGreaterThan(1_000)
    expect(waits.filter(({ waitMs }) => !Number.isInteger(waitMs))).toEqual([])
    expect(Math.max(...waits.map(({ excess }) => excess))).toBeLessThanOrEqual(1_000)
  },
)
