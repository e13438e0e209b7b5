import { expect, test } from 'vitest'
import { ownRedis } from '../support/own-redis.ts'

const redis = ownRedis()

/** Goes on after its test, as one does that ran out of time. */
let stray: Promise<unknown>

test('a test is over', () => {
  const goOn = async () => {
    for (;;) await redis.billed(() => redis.client.set('stray', '1'))
  }
  stray = goOn().catch((error: Error) => error)
})

test('and touches nothing of the one after it', async () => {
  for (let times = 0; times < 20; times++) {
    expect(await redis.billed(() => redis.client.get('own'))).toEqual({ get: 1 })
  }
  expect(await stray).toBeInstanceOf(Error)
})
