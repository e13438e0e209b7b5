import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createSteadyClock } from '../../src/core/runtime/clocks.ts'
import { MAX_TIMER_MS, sleep, waitAtMost } from '../../src/core/runtime/sleep.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('waitAtMost() gives what the work gives, and leaves no timer', async () => {
  await expect(waitAtMost(Promise.resolve(7), 1_000, undefined)).resolves.toBe(7)
  await expect(waitAtMost(Promise.reject(new Error('mine')), 1_000, undefined)).rejects.toThrow('mine')
  expect(vi.getTimerCount()).toBe(0)
})

test('waitAtMost() gives nothing for work that takes longer, whatever becomes of it', async () => {
  const { promise, reject } = Promise.withResolvers<never>()
  const waited = waitAtMost(promise, 1_000, undefined)
  await vi.advanceTimersByTimeAsync(999)
  expect(await Promise.race([waited, 'still waiting'])).toBe('still waiting')
  await vi.advanceTimersByTimeAsync(1)
  expect(await waited).toBeUndefined()
  reject(new Error('after all'))
})

test('waitAtMost() ends with its signal', async () => {
  const ended = new AbortController()
  const waited = waitAtMost(new Promise(() => {}), MAX_TIMER_MS + 1, ended.signal)
  ended.abort(new Error('enough'))
  await expect(waited).rejects.toThrow('enough')
})

test('sleep() is not longer for a clock that steps back than once more', async () => {
  let woken = false
  void sleep(1_000).then(() => {
    woken = true
  })
  vi.setSystemTime(Date.now() - 3_600_000)
  await vi.advanceTimersByTimeAsync(2_001)
  expect(woken).toBe(true)
})

test('createSteadyClock() goes on where its clock steps back', () => {
  let nowMs = 5_000
  const readPassedMs = createSteadyClock(() => nowMs)
  const readings = [100, -4_000, 50].map((ms) => {
    nowMs += ms
    return readPassedMs()
  })
  expect(readings).toEqual([100, 100, 150])
})

test('waitAtMost() may share a signal with any number of others: it has one listener', async () => {
  const { signal } = new AbortController()
  let listeners = 0
  const { addEventListener } = signal
  signal.addEventListener = (...args: Parameters<typeof addEventListener>) => {
    listeners++
    addEventListener.apply(signal, args)
  }
  const waiting = Array.from({ length: 20 }, () => waitAtMost(new Promise(() => {}), 1, signal))
  await vi.advanceTimersByTimeAsync(1)
  expect(await Promise.all(waiting)).toEqual(Array(20).fill(undefined))
  expect(listeners).toBe(1)
})

test('waitAtMost() rejects all that wait with the reason of their signal', async () => {
  const controller = new AbortController()
  const waiting = Array.from({ length: 3 }, () => waitAtMost(new Promise(() => {}), 60_000, controller.signal))
  const reason = new Error('gone')
  controller.abort(reason)
  for (const one of waiting) await expect(one).rejects.toBe(reason)
})

test('sleep() goes by timers that fire where nothing else moves', async () => {
  vi.useRealTimers()
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  let woken = false
  void sleep(60_000).then(() => {
    woken = true
  })
  await vi.advanceTimersByTimeAsync(59_999)
  expect(woken).toBe(false)
  await vi.advanceTimersByTimeAsync(1)
  expect(woken).toBe(true)
})
