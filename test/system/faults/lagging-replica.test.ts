/** Tests the loss by replication: a promoted replica admits again what had not reached it, and no more. */
import { expect, onTestFinished, test } from 'vitest'
import { createLimiter, redisStore } from '../../../src/index.ts'
import { FaultyRedis } from './redis.ts'

test('a replica that lags is promoted: of 10 units, the 5 that it lacks are admitted again, and no more', async () => {
  const redis = await FaultyRedis.start()
  onTestFinished(() => redis.stop())
  await redis.replicate({})
  const takeUpTo = async (units: number) => {
    const limiter = createLimiter({ limits: '10/1h', store: redisStore(redis.client) })
    return (await limiter.takeUpTo('alice', units)).granted
  }
  expect(await takeUpTo(5)).toBe(5)
  await redis.waitForReplica()
  await redis.cutOffReplica()
  expect(await takeUpTo(10)).toBe(5)
  expect(await takeUpTo(1)).toBe(0)
  await redis.failOver({ isLagging: true })
  expect(await takeUpTo(10)).toBe(5)
  expect(await takeUpTo(1)).toBe(0)
})
