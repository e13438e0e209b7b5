import { expect, test } from 'vitest'
import { CircuitBreaker, withBreaker } from '../../src/core/engine/stages/circuit-breaker.ts'
import { withIsolateMemory } from '../../src/core/engine/stages/isolate-memory.ts'
import { type Store, StoreError } from '../../src/core/model/store.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { createCharge, take } from '../support/charges.ts'

const PROBE_TIMEOUT_MS = 1_000

function subject(random = 0) {
  const clock = { now: 1_700_000_000_000 }
  const breaker = new CircuitBreaker({ now: () => clock.now, random: () => random, probeTimeoutMs: PROBE_TIMEOUT_MS })
  return {
    clock,
    breaker,
    /** @returns whether the call was made */
    call(isSuccess: boolean): boolean {
      const end = breaker.begin()
      end?.(isSuccess)
      return end !== undefined
    },
    fail(times: number): void {
      for (let i = 0; i < times; i++) breaker.begin()?.(false)
    },
  }
}

test('CircuitBreaker opens after five failures in a row, and no call is made then', () => {
  const { breaker, call, fail } = subject()
  fail(4)
  expect([breaker.circuit, call(false), breaker.circuit, call(true)]).toEqual(['closed', true, 'open', false])
})

test('CircuitBreaker begins to count anew with each success', () => {
  const { breaker, call, fail } = subject()
  // Too few calls for a rate to mean something.
  for (let i = 0; i < 3; i++) {
    fail(4)
    call(true)
  }
  expect(breaker.circuit).toBe('closed')
})

test('CircuitBreaker opens when half of twenty calls in ten seconds have failed', () => {
  const { breaker, call } = subject()
  for (let i = 0; i < 10; i++) call(true)
  for (let i = 0; i < 4; i++) call(false)
  call(true)
  for (let i = 0; i < 4; i++) call(false)
  expect(breaker.circuit).toBe('closed')
  call(true)
  for (let i = 0; i < 3; i++) call(false)
  expect(breaker.circuit).toBe('closed')
  call(false)
  expect(breaker.circuit).toBe('open')
})

test('CircuitBreaker drops failures of periods that have ended', () => {
  const { breaker, clock, call } = subject()
  for (let i = 0; i < 8; i++) {
    call(true)
    call(false)
  }
  clock.now += 10_000
  for (let i = 0; i < 6; i++) {
    call(true)
    call(false)
  }
  expect(breaker.circuit).toBe('closed')
})

test('CircuitBreaker lets one probe through after its pause, and closes if that succeeds', () => {
  const { breaker, clock, call, fail } = subject()
  fail(5)
  clock.now += 249
  expect(call(true)).toBe(false)
  clock.now += 1
  const probe = breaker.begin()
  expect([breaker.circuit, call(true)]).toEqual(['half-open', false])
  probe?.(true)
  expect([breaker.circuit, call(true)]).toEqual(['closed', true])
})

test('CircuitBreaker doubles its pause with each failed probe, up to a second', () => {
  const { clock, call, fail } = subject()
  fail(5)
  for (const pauseMs of [250, 500, 1_000, 1_000]) {
    clock.now += pauseMs - 1
    expect(call(false)).toBe(false)
    clock.now += 1
    expect(call(false)).toBe(true)
  }
})

test('CircuitBreaker cuts its pauses by up to a quarter, so that isolates do not probe together', () => {
  const { clock, call, fail } = subject(1)
  fail(5)
  clock.now += 187
  expect(call(true)).toBe(false)
  clock.now += 1
  expect(call(true)).toBe(true)
})

test('CircuitBreaker does not wait for ever for a probe that is not answered', () => {
  const { breaker, clock, call, fail } = subject()
  fail(5)
  clock.now += 250
  const lost = breaker.begin()
  clock.now += PROBE_TIMEOUT_MS - 1
  expect(call(true)).toBe(false)
  clock.now += 1
  const second = breaker.begin()
  lost?.(false)
  expect(breaker.circuit).toBe('half-open')
  second?.(true)
  expect(breaker.circuit).toBe('closed')
})

test('CircuitBreaker does not wait for a clock that was set back', () => {
  const { clock, call, fail } = subject()
  fail(5)
  clock.now -= 3_600_000
  expect([call(true), call(true)]).toEqual([true, true])
})

test('CircuitBreaker does not open by calls that were begun before it last changed', () => {
  const { breaker, clock, call, fail } = subject()
  const slow = Array.from({ length: 30 }, () => breaker.begin())
  fail(5)
  clock.now += 250
  call(true)
  for (const end of slow) end?.(false)
  expect(breaker.circuit).toBe('closed')
})

const RULE = createCharge('sliding-window', [{ limit: 1_000, windowMs: 60_000 }])

function createGuarded() {
  const server = { isFailing: false, calls: 0 }
  const { clock, breaker } = subject(Math.random())
  const now = () => clock.now
  const memory = new MemoryStore(now)
  const lines: unknown[] = []
  memory.decide = async (request) => {
    server.calls++
    if (server.isFailing) throw new StoreError('no answer')
    return memory.decideNow(request)
  }
  const store = withBreaker(memory, { breaker, now, log: (level, fields) => lines.push({ level, ...fields }) })
  return { clock, server, store, breaker, lines }
}

async function collectFailures(store: Store, calls: number): Promise<boolean[]> {
  const failures: boolean[] = []
  for (let i = 0; i < calls; i++) {
    const error = await store.decide(take([RULE])).catch((error: unknown) => error)
    expect(error).toBeInstanceOf(StoreError)
    failures.push((error as StoreError).mayHaveRun)
  }
  return failures
}

test('withBreaker() calls a store that keeps failing no more, and knows that it charged nothing then', async () => {
  const { server, store, breaker } = createGuarded()
  server.isFailing = true
  expect(await collectFailures(store, 7)).toEqual([true, true, true, true, true, false, false])
  expect([server.calls, breaker.circuit]).toEqual([5, 'open'])
})

test('withBreaker() calls a store that is back again, and logs that once', async () => {
  const { clock, server, store, lines, breaker } = createGuarded()
  server.isFailing = true
  await collectFailures(store, 6)
  server.isFailing = false
  await collectFailures(store, 1)
  clock.now += 250
  for (let i = 0; i < 3; i++) expect((await store.decide(take([RULE]))).granted).toBe(1)
  expect(breaker.circuit).toBe('closed')
  expect(lines).toEqual([{ level: 'info', event: 'store_recovered' }])
})

test('withBreaker() logs that a store is back again after an outage that did not open the circuit, too', async () => {
  const { server, store, lines, breaker } = createGuarded()
  server.isFailing = true
  await collectFailures(store, 2)
  server.isFailing = false
  for (let i = 0; i < 3; i++) await store.decide(take([RULE]))
  expect(breaker.circuit).toBe('closed')
  expect(lines).toEqual([{ level: 'info', event: 'store_recovered' }])
})

test('withBreaker() logs once a second at most that a store is back again, also when the clock was set back', async () => {
  const { clock, server, store, lines } = createGuarded()
  const failOnce = async () => {
    server.isFailing = true
    await collectFailures(store, 1)
    server.isFailing = false
    await store.decide(take([RULE]))
  }
  for (let i = 0; i < 3; i++) await failOnce()
  expect(lines).toHaveLength(1)
  clock.now -= 3_600_000
  await failOnce()
  expect(lines).toHaveLength(2)
  clock.now += 1_000
  await store.decide(take([RULE]))
  expect(lines).toHaveLength(2)
  await failOnce()
  expect(lines).toHaveLength(3)
})

test('withBreaker() probes a store that keeps failing by one request at a time', async () => {
  const { clock, server, store } = createGuarded()
  server.isFailing = true
  await collectFailures(store, 5)
  clock.now += 250
  const answers = await Promise.allSettled(Array.from({ length: 200 }, () => store.decide(take([RULE]))))
  expect(answers.every(({ status }) => status === 'rejected')).toBe(true)
  expect(server.calls).toBe(6)
})

test('withBreaker() gives slots back and corrects charges while the circuit is open, too', async () => {
  const { server, store, breaker } = createGuarded()
  server.isFailing = true
  await collectFailures(store, 6)
  await Promise.all([store.release([RULE]), store.renew([RULE]), store.settle([], 0), store.ping()])
  expect(breaker.circuit).toBe('open')
})

test('CircuitBreaker#halfOpen() lets the next call find out whether the store is back, if none was made', () => {
  const { breaker, call, fail } = subject()
  breaker.halfOpen()
  expect(breaker.circuit).toBe('closed')
  fail(5)
  expect([breaker.circuit, breaker.mayCall, call(true)]).toEqual(['open', false, false])
  breaker.halfOpen()
  expect([breaker.circuit, breaker.mayCall]).toEqual(['half-open', true])
  expect([call(true), breaker.circuit, breaker.mayCall]).toEqual([true, 'closed', true])
})

test('withIsolateMemory() puts nothing around a store if it is to remember nothing', () => {
  const store = new MemoryStore(() => 0)
  const options = { now: () => 0, timeoutMs: 100 }
  expect(withIsolateMemory(store, { ...options, repeats: 'none' })).toBe(store)
  expect(withIsolateMemory(store, { ...options, repeats: 'certain' })).not.toBe(store)
})
