import { describe, expect, test } from 'vitest'
import { createLimiter, OptionError } from '../../../src/index.ts'
import { outbound, throttle } from '../../../src/outbound.ts'

const limiter = { take: async () => ({ granted: true, retryAfterMs: 0 }) }

describe.each([
  ['outbound()', (options: object) => outbound(fetch, options)],
  ['throttle()', (options: object) => throttle(() => {}, { ...('limits' in options ? {} : { limiter }), ...options })],
])('%s refuses at once', (_, make) => {
  test.each([
    [{ limiter: {} }, 'limiter: expected what createLimiter() makes, got "object"'],
    [{ limits: 'many' }, 'limits'],
    [{ limits: '1/1s', limiter }, 'limits: expected either limits or limiter'],
    [{ concurrency: 0 }, 'concurrency: expected an integer from 1 to 1000000, got 0'],
    [{ signal: 'stop' }, 'signal: expected an AbortSignal, got "string"'],
    [{ onDecision: 1 }, 'onDecision: expected a function, got 1'],
    [{ onWait: 1 }, 'onWait: expected a function, got 1'],
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
  [{ retry: { attempts: 0 } }, 'retry.attempts: expected an integer from 1 to 100, got 0'],
  [{ retry: { methods: 'GET' } }, 'retry.methods: expected a list of methods, got "GET"'],
  [{ retry: { isRefusal: true } }, 'retry.isRefusal: expected a function, got true'],
  [{ retry: { retries: 2 } }, 'retry.retries: unknown option; expected one of methods, attempts, isRefusal'],
  [{ resource: 7 }, 'resource: expected a string, got 7'],
  [{ readLimits: 7 }, 'readLimits: expected a function, got 7'],
  [{ maxPauseMs: '1h' }, 'maxPauseMs: expected milliseconds from 0, got "1h"'],
])('outbound() refuses at once: %j', (options, message) => {
  expect(() => outbound(fetch, options as object)).toThrow(message)
})

test('outbound() rejects a call whose terms or URL are not as expected', async () => {
  const call = outbound(fetch, { cost: () => 0 })
  await expect(call('https://api.example/')).rejects.toThrow('cost: expected an integer from 1 to 1000000000, got 0')
  await expect(outbound(fetch)('no URL')).rejects.toThrow(TypeError)
})

test('throttle() charges all calls to one identity by default, which a limiter of the library takes', async () => {
  const call = throttle(() => 'called', { limiter: createLimiter({ limits: '2/1h' }), maxWaitMs: 0 })
  const calls = await Promise.allSettled([call(), call(), call()])
  expect(calls.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected'])
})

test('throttle() needs limits, and an identity if that is a function', async () => {
  expect(() => throttle(() => {}, {})).toThrow('limits: expected limits, limiter or concurrency, got nothing')
  const call = throttle(() => {}, { limiter, identity: () => undefined as unknown as string })
  await expect(call()).rejects.toThrow('resource: expected a string, got nothing')
})
