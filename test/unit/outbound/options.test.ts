import { describe, expect, test } from 'vitest'
import { type OutboundOptions, outbound, throttle } from '../../../src/outbound.ts'
import { MemoryStore } from '../../../src/store/memory/memory-store.ts'
import { opened } from '../../support/store-limiter.ts'

const limiter = { take: async () => ({ granted: true, retryAfterMs: 0 }) }
const notes = { read: async () => undefined, write: async () => {} }

describe.each([
  ['outbound()', (options: object) => outbound(fetch, options)],
  ['throttle()', (options: object) => throttle(() => {}, { limiter, identity: 'a', ...options })],
])('%s refuses at once', (_, make) => {
  test.each([
    [{ limiter: {} }, 'limiter: expected a limiter, with a function `take`, got object'],
    [{ cost: 0 }, 'cost: expected an integer from 1, got 0'],
    [{ cost: 1.5 }, 'cost: expected an integer from 1, got 1.5'],
    [{ priority: 'urgent' }, 'priority: expected critical, default, sheddable, got urgent'],
    [{ atMostMs: -1 }, 'atMostMs: expected milliseconds, 0 or more, got -1'],
    [{ atMostMs: Number.NaN }, 'atMostMs: expected milliseconds, 0 or more, got NaN'],
    [{ maxQueued: 0 }, 'maxQueued: expected an integer from 1, got 0'],
  ])('%j', (options, message) => {
    expect(() => make(options)).toThrow(new TypeError(message))
  })
})

test.each([
  [{ retries: -1 }, 'retries: expected an integer from 0, got -1'],
  [{ retries: 0.5 }, 'retries: expected an integer from 0, got 0.5'],
  [{ learned: { store: {}, notes } }, 'learned.store: expected what redisStore() makes, got object'],
  [
    { learned: { store: opened(new MemoryStore(Date.now)), notes: {} } },
    'learned.notes: expected { read, write }, got object',
  ],
  [{ countedWithinMs: -1 }, 'countedWithinMs: expected milliseconds, 0 or more, got -1'],
])('outbound() refuses at once: %j', (options, message) => {
  expect(() => outbound(fetch, options as OutboundOptions)).toThrow(new TypeError(message))
})

test('outbound() rejects a call whose terms or URL are not as expected', async () => {
  const call = outbound(fetch, { cost: () => 0 })
  await expect(call('https://api.example/')).rejects.toThrow(new TypeError('cost: expected an integer from 1, got 0'))
  await expect(outbound(fetch)('no URL')).rejects.toThrow(TypeError)
})

test('throttle() rejects a call without an identity', async () => {
  const call = throttle(() => {}, { limiter, identity: () => undefined as unknown as string })
  await expect(call()).rejects.toThrow(new TypeError('identity: expected a string, got undefined'))
})
