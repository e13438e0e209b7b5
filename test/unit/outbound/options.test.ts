import { describe, expect, test } from 'vitest'
import { memoryStore, OptionError } from '../../../src/index.ts'
import { outbound, throttle } from '../../../src/outbound.ts'

const limiter = { take: async () => ({ granted: true, retryAfterMs: 0 }) }
const notes = { read: async () => undefined, write: async () => {} }
const store = memoryStore()

describe.each([
  ['outbound()', (options: object) => outbound(fetch, options)],
  ['throttle()', (options: object) => throttle(() => {}, { limiter, identity: 'a', ...options })],
])('%s refuses at once', (_, make) => {
  test.each([
    [{ limiter: {} }, 'limiter: expected what createLimiter() makes, got "object"'],
    [{ identity: 7 }, 'identity: expected a string, got 7'],
    [{ cost: 0 }, 'cost: expected an integer from 1 to 1000000000, got 0'],
    [{ cost: 1.5 }, 'cost: expected an integer from 1 to 1000000000, got 1.5'],
    [{ priority: 'urgent' }, 'priority: expected "critical" or "default" or "sheddable", got "urgent"'],
    [{ tenant: null }, 'tenant: expected a string, got null'],
    [{ maxWaitMs: -1 }, 'maxWaitMs: expected milliseconds from 0, got -1'],
    [{ maxWaitMs: Number.NaN }, 'maxWaitMs: expected milliseconds from 0, got NaN'],
    [{ maxQueued: 0 }, 'maxQueued: expected an integer from 1 to 1000000, got 0'],
    [{ random: 0.5 }, 'random: expected a function, got 0.5'],
  ])('%j', (options, message) => {
    expect(() => make(options)).toThrow(OptionError)
    expect(() => make(options)).toThrow(message)
  })

  test('an unknown option', () => {
    expect(() => make({ atMostMS: 5 })).toThrow(/\.atMostMS: unknown option; expected one of cost, /)
  })
})

test.each([
  [{ retries: -1 }, 'retries: expected an integer from 0 to 100, got -1'],
  [{ retries: 0.5 }, 'retries: expected an integer from 0 to 100, got 0.5'],
  [{ countedWithinMs: -1 }, 'countedWithinMs: expected milliseconds from 0, got -1'],
  [{ maxPauseMs: '1h' }, 'maxPauseMs: expected milliseconds from 0, got "1h"'],
  [{ shared: { store: {}, notes } }, 'shared.store: expected what redisStore() makes, got "object"'],
  [{ shared: { store, notes: {} } }, 'shared.notes: expected functions read and write, got "object"'],
  [{ shared: { store, note: notes } }, 'shared.note: unknown option; expected one of store, notes, keyPrefix'],
])('outbound() refuses at once: %j', (options, message) => {
  expect(() => outbound(fetch, options as object)).toThrow(message)
})

test('outbound() rejects a call whose terms or URL are not as expected', async () => {
  const call = outbound(fetch, { cost: () => 0 })
  await expect(call('https://api.example/')).rejects.toThrow('cost: expected an integer from 1 to 1000000000, got 0')
  await expect(outbound(fetch)('no URL')).rejects.toThrow(TypeError)
})

test('throttle() rejects a call without an identity', async () => {
  const options = { limiter } as unknown as Parameters<typeof throttle>[1]
  expect(() => throttle(() => {}, options)).toThrow('identity: expected a string, got nothing')
  const call = throttle(() => {}, { limiter, identity: () => undefined as unknown as string })
  await expect(call()).rejects.toThrow('identity: expected a string, got nothing')
})
