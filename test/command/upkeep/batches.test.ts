import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Database, Job } from '../../../src/command/upkeep/database.ts'
import { MAX_KEYS, sweep } from '../../../src/command/upkeep/sweep.ts'
import { expectProperty } from '../../support/property.ts'

interface Server {
  /** How long it takes for each key; undefined: its clock stands still in scripts. */
  readonly usPerKey: number | undefined
  readonly pages: number
  /** How long each SCAN and PING takes, in order; 1 ms when there are no more. */
  readonly answersMs?: readonly number[]
  readonly count?: number
}

/** Goes through a database of which only the times are real. @returns keys handed to each script, and how often it paused */
async function goThrough({ usPerKey, pages, answersMs = [], count }: Server) {
  let [nowMs, answers, page] = [0, 0, 0]
  const answer = async () => {
    nowMs += answersMs[answers++] ?? 1
  }
  const database = {
    inFlight: 1,
    refuseCluster: async () => {},
    size: async () => pages * MAX_KEYS,
    ping: answer,
    async scan(_cursor: string, _match: string, most: number) {
      await answer()
      const cursor = ++page < pages ? `${page}` : '0'
      return { cursor, keys: Array.from({ length: most }, (_, i) => `${i}`), unnameable: 0 }
    },
  }
  const scripts: { readonly handed: number; readonly us: number }[] = []
  const job: Job = {
    name: 'count',
    async apply(_database, keys, budgetUs) {
      // As by-ttl.lua, which looks at the clock at every 32nd key.
      const most = 32 * (Math.floor(budgetUs / (32 * (usPerKey ?? Number.EPSILON))) + 1)
      const changed = Math.min(keys.length, most)
      const us = usPerKey && Math.round(changed * usPerKey)
      scripts.push({ handed: keys.length, us: us ?? 0 })
      return { changed, kept: 0, gone: 0, us }
    },
  }
  const wait = async (ms: number) => {
    nowMs += ms
  }
  const options = { database: database as unknown as Database, job, match: '*', count, wait, nowMs: () => nowMs }
  const { isComplete, tally, pauses } = await sweep(options)
  expect([isComplete, tally.seen]).toEqual([true, pages * (count ?? MAX_KEYS)])
  return { scripts, pauses }
}

test('sweep() makes scripts that take half a millisecond, whatever a key takes', async () => {
  const property = fc.asyncProperty(fc.double({ min: 0.6, max: 45, noNaN: true }), async (usPerKey) => {
    const { scripts } = await goThrough({ usPerKey, pages: 10 })
    for (const { us } of scripts) expect(us).toBeLessThanOrEqual(500 + 33 * usPerKey)
    // What a script leaves is handed out again, and not often: over all of them, at most as much as was done.
    const handed = scripts.reduce((sum, script) => sum + script.handed, 0)
    expect(handed).toBeLessThanOrEqual(2.5 * 10 * MAX_KEYS)
    expect(scripts.length).toBeLessThanOrEqual(10 * (MAX_KEYS / Math.min(500 / usPerKey, 250) + 8))
  })
  await expectProperty(property, 100)
})

test('sweep() hands a script no more keys than it is allowed, and never none', async () => {
  const usPerKey = fc.option(fc.integer({ min: 1, max: 100_000 }), { nil: undefined })
  const property = fc.asyncProperty(fc.integer({ min: 1, max: MAX_KEYS }), usPerKey, async (count, us) => {
    const { scripts } = await goThrough({ usPerKey: us, pages: 3, count })
    for (const { handed } of scripts) {
      expect(handed).toBeGreaterThanOrEqual(1)
      expect(handed).toBeLessThanOrEqual(count)
    }
  })
  await expectProperty(property, 100)
})

test('sweep() keeps scripts small where the server tells no time', async () => {
  const { scripts } = await goThrough({ usPerKey: undefined, pages: 5 })
  expect(Math.max(...scripts.map(({ handed }) => handed))).toBe(250)
})

test('sweep() takes three slow answers in a row for a slow server, and one quick one for a server that is well', async () => {
  const pausesOf = async (answersMs: readonly number[]) =>
    (await goThrough({ usPerKey: 1, pages: answersMs.length + 3, answersMs })).pauses
  expect(await pausesOf([20, 25, 90, 90, 60, 90, 90])).toBe(0)
  expect(await pausesOf([20, 25, 90, 90, 90])).toBe(1)
  // Within 50 ms of its best.
  expect(await pausesOf([0.1, 40, 45, 50, 49])).toBe(0)
})
