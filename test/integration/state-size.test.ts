import { expect, inject, test } from 'vitest'
import { START_MS } from '../support/arbitraries.ts'
import { createCharge, take } from '../support/charges.ts'
import { shareRedis } from '../support/own-redis.ts'
import { ScriptStore } from '../support/script-store.ts'

const redis = shareRedis()

const MINUTE = 60_000
const DAY = 24 * 60 * MINUTE

const BUDGET = [
  { limit: 300, windowMs: MINUTE },
  { limit: 15_750, windowMs: 60 * MINUTE },
  { limit: 300_000, windowMs: DAY },
  { limit: 1_500_000, windowMs: 7 * DAY },
  { limit: 6_000_000, windowMs: 30 * DAY },
]

/** What grows with each admission shows after a hundred; 10,000 are for the long form. */
const ADMISSIONS = inject('fuzz').isLong ? 10_000 : 1_500

test(`a quota, a fixed window and a token bucket take as many bytes after 10 admissions as after ${ADMISSIONS}`, async () => {
  const script = new ScriptStore(redis)
  const charges = [
    createCharge('quota', BUDGET),
    createCharge('fixed-window', BUDGET),
    createCharge('token-bucket', [{ limit: 299, windowMs: MINUTE }]),
  ]
  const bytes = () => Promise.all(charges.map(({ key }) => redis.memoryUsage(key)))
  const seen: unknown[] = []
  for (let i = 1; i <= ADMISSIONS; i++) {
    // As fast as the minute's limit allows.
    const { granted } = await script.decide(take(charges), (START_MS + i * 201) * 1000)
    expect(granted).toBe(1)
    if (i === 10 || i === ADMISSIONS) seen.push(await bytes())
  }
  expect(seen[1]).toEqual(seen[0])
})
