/** A flood that is refused must not cost its victim more than a few calls a second, whatever refuses it. */
import { expect, test } from 'vitest'
import { FLOOD_CASES } from '../../bench/floods/cases.ts'
import { measureFlood } from '../../bench/floods/measure.ts'
import { ownRedis } from '../support/own-redis.ts'

const redis = ownRedis()

test.each(FLOOD_CASES)('a flood costs at most 0.05 calls a request: $name', async (flood) => {
  const figures = await measureFlood(flood, { redis: redis.client, perSecond: 200, seconds: 5 })
  for (const { calls, commands, rowsWritten } of figures) {
    expect(calls).toBeLessThanOrEqual(0.05)
    expect(commands).toBeLessThanOrEqual(0.25)
    expect(rowsWritten).toBeLessThanOrEqual(0.05)
  }
})
