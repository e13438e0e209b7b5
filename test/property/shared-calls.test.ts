import { describe, expect, test, vi } from 'vitest'
import { withLeases } from '../../src/core/engine/leases/with-leases.ts'
import { withIsolateMemory } from '../../src/core/engine/stages/isolate-memory.ts'
import type { Decision, DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import { StoreError } from '../../src/core/model/store.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { callContext } from '../support/call-context.ts'
import { createCharge, retryAfterMs, storeWith, take } from '../support/charges.ts'

const START_MS = 1_700_000_000_000
const WINDOW_MS = 60_000

/** The longest for which permits of several charges last. */
const LONG_MS = 5_000

/** A store whose calls the test runs and answers, and requests of so many charges that leases decide over it. */
function subject(count: number, { limit = 6_000, timeoutMs = LONG_MS } = {}) {
  const clock = { now: START_MS }
  const memory = new MemoryStore(() => clock.now)
  const calls: (PromiseWithResolvers<Decision> & { readonly request: DecisionRequest })[] = []
  const store = storeWith({
    decide(request) {
      const call = { ...Promise.withResolvers<Decision>(), request }
      calls.push(call)
      return call.promise
    },
  })
  const leases = withIsolateMemory(store, {
    repeats: 'none',
    leases: withLeases('auto'),
    now: () => clock.now,
    timeoutMs,
  })
  const charges = Array.from({ length: count }, (_, at) =>
    createCharge('sliding-window', [{ limit: (count - at) * limit, windowMs: WINDOW_MS }]),
  )
  const charge = charges.at(-1) as StoreCharge
  const decide = (cost = 1): Promise<Decision> =>
    leases.decide(take(charges.map((charge) => ({ ...charge, cost }))), callContext())
  async function decideAtOnce(requests: number): Promise<readonly Promise<Decision>[]> {
    const deciding = Array.from({ length: requests }, () => decide())
    await new Promise(setImmediate)
    return deciding
  }
  /** Runs and answers the call that was made first. */
  async function answer(): Promise<DecisionRequest> {
    const call = calls.shift()
    if (!call) throw new Error('there is no call to answer')
    call.resolve(memory.decideNow(call.request))
    await new Promise(setImmediate)
    return call.request
  }
  /** Answers all calls, also those to which answers lead: none of these requests may wait any longer. */
  async function finish(deciding: readonly Promise<Decision>[]): Promise<readonly Decision[]> {
    while (calls.length > 0) await answer()
    const decisions = await settled(deciding)
    expect(decisions).toHaveLength(deciding.length)
    return decisions
  }
  /** Charges by another isolate. */
  const consume = (permits: number, of: StoreCharge = charge) =>
    memory.decideNow({ action: 'record', permits, charges: [of] })
  return { clock, calls, decide, decideAtOnce, answer, finish, consume }
}

/** @returns the decisions of promises that are settled by now */
async function settled(deciding: readonly Promise<Decision>[]): Promise<readonly Decision[]> {
  const pending = Symbol('pending')
  const all = await Promise.all(deciding.map((one) => Promise.race([one, Promise.resolve(pending)])))
  return all.filter((one): one is Decision => one !== pending)
}

describe.each([1, 2])('with %i charges of a request', (count) => {
  test('Leases: requests that come while a call is on its way are decided together by the next one', async () => {
    const { calls, decideAtOnce, answer, finish } = subject(count)
    const deciding = await decideAtOnce(20)
    expect(calls.map(({ request }) => request.permits)).toEqual([1])
    await answer()
    expect(await settled(deciding)).toHaveLength(1)
    expect(calls.map(({ request }) => request.action)).toEqual(['take-up-to'])
    expect((await answer()).permits).toBeGreaterThanOrEqual(19)
    expect(calls).toHaveLength(0)
    expect((await finish(deciding)).every(({ granted }) => granted === 1)).toBe(true)
  })

  test('Leases: of requests that are decided together, as many are admitted as fit, and the others learn how long to wait', async () => {
    const { clock, decideAtOnce, finish, consume } = subject(count)
    const deciding = await decideAtOnce(11)
    consume(5_992)
    clock.now += 1_000
    const decisions = await finish(deciding)
    const refused = decisions.filter(({ granted }) => granted === 0)
    expect(decisions.length - refused.length).toBe(8)
    expect(refused.map(retryAfterMs)).toEqual([59_000, 59_000, 59_000])
  })

  test('Leases: near a limit, each request makes a call of its own', async () => {
    const { calls, decideAtOnce, finish, consume } = subject(count, { limit: 100 })
    consume(70)
    await finish(await decideAtOnce(1))
    const deciding = await decideAtOnce(5)
    expect(calls.map(({ request }) => request.permits)).toEqual([1, 1, 1, 1, 1])
    await finish(deciding)
  })

  test('Leases: requests that differ in their cost do not wait for each other', async () => {
    const { calls, decide, finish } = subject(count)
    const deciding = [decide(1), decide(2)]
    await new Promise(setImmediate)
    expect(calls).toHaveLength(2)
    await finish(deciding)
  })

  test('Leases: if a call fails, each request that waits makes its own, until something is granted', async () => {
    const { calls, decideAtOnce, finish } = subject(count)
    const [first, ...waiting] = await decideAtOnce(4)
    calls.shift()?.reject(new StoreError('no answer'))
    await expect(first).rejects.toThrow(StoreError)
    expect(calls.map(({ request }) => request.permits)).toEqual([1, 1, 1])
    const late = await decideAtOnce(1)
    expect(calls).toHaveLength(4)
    await finish([...waiting, ...late])
    const more = await decideAtOnce(40)
    expect(calls.length).toBeLessThanOrEqual(1)
    await finish(more)
  })

  test('Leases: if a call for requests that wait fails, so do they', async () => {
    const { calls, decideAtOnce, answer } = subject(count)
    const [first, ...waiting] = await decideAtOnce(5)
    const outcomes = waiting.map((one) => one.then(String, (error: unknown) => error))
    await answer()
    await first
    calls.shift()?.reject(new StoreError('no answer'))
    await new Promise(setImmediate)
    expect(await Promise.all(outcomes.map((one) => Promise.race([one, 'it waits'])))).toEqual(
      waiting.map(() => expect.any(StoreError)),
    )
  })

  test('Leases: a request that has waited for a third of the deadline makes a call, for all that wait', async () => {
    const { calls, decideAtOnce, finish } = subject(count, { timeoutMs: 60 })
    const deciding = await decideAtOnce(4)
    await vi.waitFor(() => expect(calls).toHaveLength(2))
    expect(calls.map(({ request }) => request.permits)).toEqual([1, 3])
    const [lost] = calls.splice(0, 1)
    expect(await finish(deciding.slice(1))).toMatchObject([{ granted: 1 }, { granted: 1 }, { granted: 1 }])
    lost?.reject(new StoreError('no answer'))
    await expect(deciding[0]).rejects.toThrow(StoreError)
  })

  test('Leases: a request whose call is lost with the request that made it makes another', async () => {
    const { calls, decideAtOnce, answer, finish } = subject(count, { timeoutMs: 30 })
    const [first, , third] = (await decideAtOnce(3)) as [Promise<Decision>, Promise<Decision>, Promise<Decision>]
    await answer()
    await first
    expect(calls.map(({ request }) => request.permits)).toEqual([2])
    calls.shift()
    await vi.waitFor(() => expect(calls).toHaveLength(1))
    expect(await finish([third])).toMatchObject([{ granted: 1 }])
  })

  test('Leases: requests that wait get no permits that a step back of the clock has ended', async () => {
    const { clock, calls, decideAtOnce, answer, finish } = subject(count)
    for (let i = 0; i < 30; i++) {
      await finish(await decideAtOnce(1))
      clock.now += 10
    }
    clock.now += 30_000
    const deciding = await decideAtOnce(10)
    clock.now -= 50
    const requests: DecisionRequest[] = []
    while (calls.length > 0) requests.push(await answer())
    expect((await finish(deciding)).every(({ granted }) => granted === 1)).toBe(true)
    // That which was on its way, and one for all that waited for it.
    expect(requests.length).toBeLessThanOrEqual(2)
    // Each has a permit that was taken since.
    expect(requests.reduce((sum, { permits }) => sum + permits, 0)).toBeGreaterThanOrEqual(10)
  })
})
