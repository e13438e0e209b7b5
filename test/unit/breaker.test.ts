import { expect, test } from 'vitest'
import { CircuitBreaker, withBreaker } from '../../src/core/engine/stages/circuit-breaker.ts'
import { type Store, StoreError } from '../../src/core/model/store.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { chargeOf, take } from '../support/charges.ts'

const RULE = chargeOf('sliding-window', [{ limit: 1_000, windowMs: 60_000 }])

function subject() {
  const clock = { now: 1_700_000_000_000 }
  const server = { isAway: false, asked: 0 }
  const memory = new MemoryStore(() => clock.now)
  const lines: unknown[] = []
  memory.decide = async (request) => {
    server.asked++
    if (server.isAway) throw new StoreError('no answer')
    return memory.decideNow(request)
  }
  const now = () => clock.now
  const breaker = new CircuitBreaker({ now, random: Math.random, probeTimeoutMs: 1_000 })
  const store = withBreaker(memory, { breaker, now, log: (level, fields) => lines.push({ level, ...fields }) })
  return { clock, server, store, breaker, lines }
}

async function failuresOf(store: Store, calls: number): Promise<boolean[]> {
  const failures: boolean[] = []
  for (let i = 0; i < calls; i++) {
    const error = await store.decide(take([RULE])).catch((error: unknown) => error)
    expect(error).toBeInstanceOf(StoreError)
    failures.push((error as StoreError).mayHaveRun)
  }
  return failures
}

test('a store that keeps failing is asked no more, and is known to have charged nothing then', async () => {
  const { server, store, breaker } = subject()
  server.isAway = true
  expect(await failuresOf(store, 7)).toEqual([true, true, true, true, true, false, false])
  expect([server.asked, breaker.circuit]).toEqual([5, 'open'])
})

test('a store that is back is asked again, and the log says so once', async () => {
  const { clock, server, store, lines, breaker } = subject()
  server.isAway = true
  await failuresOf(store, 6)
  server.isAway = false
  await failuresOf(store, 1)
  clock.now += 250
  for (let i = 0; i < 3; i++) expect((await store.decide(take([RULE]))).granted).toBe(1)
  expect(breaker.circuit).toBe('closed')
  expect(lines).toEqual([{ level: 'info', event: 'store_recovered' }])
})

test('a store that keeps failing is asked by one request at a time whether it is back', async () => {
  const { clock, server, store } = subject()
  server.isAway = true
  await failuresOf(store, 5)
  clock.now += 250
  const answers = await Promise.allSettled(Array.from({ length: 200 }, () => store.decide(take([RULE]))))
  expect(answers.every(({ status }) => status === 'rejected')).toBe(true)
  expect(server.asked).toBe(6)
})

test('slots are given back and charges corrected while the circuit is open, too', async () => {
  const { server, store, breaker } = subject()
  server.isAway = true
  await failuresOf(store, 6)
  await Promise.all([store.release([RULE]), store.renew([RULE]), store.settle([], 0), store.ping()])
  expect(breaker.circuit).toBe('open')
})
