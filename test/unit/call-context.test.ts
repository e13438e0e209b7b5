import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Deadlines, TOO_LATE } from '../../src/core/runtime/call-context.ts'

const never = new Promise<never>(() => {})

beforeEach(() => {
  vi.useFakeTimers({ now: 1_700_000_000_000 })
})
afterEach(() => {
  vi.useRealTimers()
})

test('Deadlines#waitWithin() answers what the work comes to, if that is in time', async () => {
  const deadlines = new Deadlines()
  expect(await deadlines.waitWithin(60_000, Promise.resolve('done'))).toBe('done')
  expect(await deadlines.waitWithin(60_000, Promise.resolve(undefined))).toBeUndefined()
})

test('Deadlines#waitWithin() throws what the work throws', async () => {
  await expect(new Deadlines().waitWithin(60_000, Promise.reject(new Error('not done')))).rejects.toThrow('not done')
})

test('Deadlines#waitWithin() lets work that fails too late fail unheard', async () => {
  const work = Promise.withResolvers<never>()
  const answer = new Deadlines().waitWithin(1, work.promise)
  await vi.advanceTimersByTimeAsync(1)
  expect(await answer).toBe(TOO_LATE)
  // Vitest fails a run with a rejection that nobody handles.
  work.reject(new Error('too late'))
  await vi.advanceTimersByTimeAsync(1)
})

test('Deadlines#waitWithin() keeps the deadline of a later wait with the timer of an earlier one', async () => {
  const deadlines = new Deadlines()
  await deadlines.waitWithin(500, Promise.resolve())
  await vi.advanceTimersByTimeAsync(100)
  let isOver = false
  const before = vi.getTimerCount()
  const waiting = deadlines.waitWithin(30_000, never).then(() => {
    isOver = true
  })
  expect(vi.getTimerCount()).toBe(before)
  await vi.advanceTimersByTimeAsync(29_999)
  expect(isOver).toBe(false)
  await vi.advanceTimersByTimeAsync(1)
  await waiting
})

test('Deadlines#waitWithin() waits exactly as long as it may for several things at once', async () => {
  const deadlines = new Deadlines()
  const before = Date.now()
  const waits = [30_000, 500, 2_000, 500].map((timeoutMs) =>
    deadlines.waitWithin(timeoutMs, never).then((answer) => [answer, Date.now() - before]),
  )
  await vi.advanceTimersByTimeAsync(60_000)
  expect(await Promise.all(waits)).toEqual([30_000, 500, 2_000, 500].map((ms) => [TOO_LATE, ms]))
})

test('Deadlines#waitWithin() waits twice as long at most when the clock is set back', async () => {
  const deadlines = new Deadlines()
  let isOver = false
  const waiting = deadlines.waitWithin(500, never).then(() => {
    isOver = true
  })
  vi.setSystemTime(Date.now() - 3_600_000)
  await vi.advanceTimersByTimeAsync(1_000)
  expect(isOver).toBe(true)
  await waiting
})

test('Deadlines#end() leaves no timer behind, once nothing is waited for', async () => {
  const deadlines = new Deadlines()
  const work = Promise.withResolvers<string>()
  const late = deadlines.waitWithin(500, work.promise)
  await deadlines.waitWithin(500, Promise.resolve())
  const before = vi.getTimerCount()
  deadlines.end()
  expect(vi.getTimerCount()).toBe(before)
  work.resolve('done')
  expect(await late).toBe('done')
  expect(vi.getTimerCount()).toBe(before - 1)
  expect(await deadlines.waitWithin(500, Promise.resolve('after'))).toBe('after')
  expect(vi.getTimerCount()).toBe(before - 1)
})
