import { expect, test } from 'vitest'
import { TOO_LATE, within } from '../../src/deadline.ts'

test('within() answers what the work comes to, if that is in time', async () => {
  expect(await within(60_000, Promise.resolve('done'))).toBe('done')
  expect(await within(60_000, Promise.resolve(undefined))).toBeUndefined()
})

test('within() throws what the work throws', async () => {
  await expect(within(60_000, Promise.reject(new Error('not done')))).rejects.toThrow('not done')
})

test('within() waits no longer than it is told', async () => {
  expect(await within(1, new Promise(() => {}))).toBe(TOO_LATE)
})

test('within() lets work that fails too late fail unheard', async () => {
  const work = Promise.withResolvers<never>()
  expect(await within(1, work.promise)).toBe(TOO_LATE)
  // Vitest fails a run with a rejection that nobody handles.
  work.reject(new Error('too late'))
  await new Promise((resolve) => setTimeout(resolve))
})
