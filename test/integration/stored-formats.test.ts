/** Reads what an older release has stored, and requires that this code stores it in the same formats. */
import { describe, expect, test } from 'vitest'
import { listKeys, readContent, readOpenCharge, writeContent, writeOpenCharge } from '../fixtures/content.ts'
import { listReleases, readFixture } from '../fixtures/fixture-files.ts'
import { openObjectPlace, openRedisPlace } from '../fixtures/places.ts'
import { ownRedis } from '../support/own-redis.ts'

const redis = ownRedis()
const RELEASES = listReleases().toSorted(new Intl.Collator('en', { numeric: true }).compare)

const CHANGED =
  'The format of what is stored has changed. During a rollout, an older release reads and writes it too, and counts of running windows must not be lost: keep the old format; or read both, run `npm run fixtures`, and say so in CHANGELOG.md'
const UNREADABLE = 'This code does not read what an older release has stored'

/** IDs are random, and documents have the store's own time. */
function mask(lines: readonly string[]): string[] {
  return lines.map((line) =>
    line
      .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '<id>')
      .replaceAll(/\b(1(7[1-9]|[89]\d)|[2-9]\d\d)\d{10}\b/g, '<time>'),
  )
}

describe.each(RELEASES)('what %s has stored', (release) => {
  const { answers, ...dumps } = readFixture(release)

  test('in Redis: counts go on, rules apply, statistics are summed', async () => {
    const place = await openRedisPlace(redis.client)
    await place.load(dumps.redis)
    expect(await readContent(place), UNREADABLE).toEqual(answers.content)
  })

  test('in Durable Objects: counts go on, rules apply, statistics are summed, what is open ends', async () => {
    const place = openObjectPlace()
    await place.load(dumps.objects)
    expect(await readOpenCharge(place), UNREADABLE).toEqual(answers.open)
    expect(await readContent(place), UNREADABLE).toEqual(answers.content)
  })

  test('under the keys of its callers is found', async () => {
    expect(await listKeys(), UNREADABLE).toEqual(answers.keys)
  })
})

describe('what the newest fixture holds', () => {
  const { redis: redisLines, objects } = readFixture(RELEASES.at(-1) as string)

  test('is stored in the same way in Redis', async () => {
    const place = await openRedisPlace(redis.client)
    await writeContent(place)
    expect(mask(await place.dump()), CHANGED).toEqual(mask(redisLines))
  })

  test('is stored in the same way in Durable Objects', async () => {
    const place = openObjectPlace()
    await writeOpenCharge(place)
    await writeContent(place)
    expect(mask(await place.dump()), CHANGED).toEqual(mask(objects))
  })
})
