/** What one decision costs by several policies, each by an identity of its own: exact counts. */
import { expect, onTestFinished, test } from 'vitest'
import { countOverObjects, measureOverRedis } from '../../bench/identities/measure.ts'
import { startFront } from '../../bench/services.ts'
import { ownRedis } from '../support/own-redis.ts'

const redis = ownRedis()

test('over Redis: one call, two commands besides those of each identity, and at most 100 bytes for each', async () => {
  const front = await startFront(redis.port, 'token', 0)
  const connectTo = async () => ({ contenders: [], overTcp: [], close: async () => {} })
  onTestFinished(() => front.stop())
  const figures = await measureOverRedis({ redis: redis.client, front, token: 'token', connectTo })
  for (const isNew of [true, false]) {
    const [alone, ...several] = figures.filter((row) => row.isNew === isNew)
    expect(several.map(({ identities }) => identities)).toEqual([3, 6])
    if (!alone) throw new Error('not measured')
    // XREVRANGE and XADD, and EXPIRE or XRANGE; EVALSHA and TIME are common to all.
    expect(alone).toMatchObject({ calls: 1, billed: 5 })
    for (const { identities, calls, billed, bytes } of several) {
      expect({ calls, billed }).toEqual({ calls: 1, billed: 2 + 3 * identities })
      expect(bytes - alone.bytes).toBeLessThanOrEqual(100 * (identities - 1))
    }
  }
})

test.each([1, 6])('by %d objects: one round trip, and two calls to each unless it is alone', async (identities) => {
  const [fresh, hot] = await countOverObjects(identities)
  const calls = identities === 1 ? 1 : 2 * identities
  expect(fresh).toMatchObject({ calls, roundTrips: 1, rowsWritten: 4 * identities })
  expect(hot).toMatchObject({ calls, roundTrips: 1 })
  // A row for each admission, and sometimes another, when the log goes on in a new one.
  expect(hot?.rowsWritten).toBeGreaterThanOrEqual(identities)
  expect(hot?.rowsWritten).toBeLessThanOrEqual(1.05 * identities)
})
