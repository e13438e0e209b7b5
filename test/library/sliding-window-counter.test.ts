import { expect, test } from 'vitest'
import { memoryStore, OptionError, SlidingWindowCounter } from '../../src/index.ts'

test('counters of one store share a count by name and identity', async () => {
  const store = memoryStore()
  const findCounter = (name: string, identity: string) =>
    new SlidingWindowCounter({ window: '1h', store, name, identity })
  await findCounter('errors', 'alice').add(2)
  expect(await findCounter('errors', 'alice').get()).toBe(2)
  expect(await findCounter('errors', 'bob').get()).toBe(0)
  expect(await findCounter('calls', 'alice').get()).toBe(0)
})

test.each([
  [{}, 'window: expected a duration from 1ms to 53w such as "30s"'],
  [{ window: 5 }, 'window: expected a duration'],
  [{ window: '5 s' }, 'window: expected a duration'],
  [{ window: '5s', name: 'a b' }, 'name: expected up to 64 letters'],
  [{ window: '5s', store: {} }, 'store: expected what memoryStore() or redisStore() makes'],
  [{ window: '5s', keyPrefix: '' }, 'keyPrefix: expected up to 64 letters'],
  [{ window: '5s', identitySecret: 'x' }, 'identitySecret: expected at least 16 characters'],
  [{ window: '5s', now: 1 }, 'now: expected a function, got 1'],
  [{ window: '5s', identity: [] }, 'identity: expected a string that is not empty, or a list of strings'],
  [{ seconds: 5 }, 'SlidingWindowCounter.seconds: unknown option; expected one of window, '],
])('SlidingWindowCounter refuses %j', (options, message) => {
  const make = () => new SlidingWindowCounter(options as never)
  expect(make).toThrow(OptionError)
  expect(make).toThrow(message)
})

test.each([0, -1, 1.5, Number.NaN, '1'])('add() refuses %j', async (count) => {
  const counter = new SlidingWindowCounter({ window: '5s' })
  await expect(counter.add(count as number)).rejects.toThrow('count: expected an integer from 1 to 1000000000')
})
