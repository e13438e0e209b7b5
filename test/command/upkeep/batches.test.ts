import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Connection } from '../../../src/command/redis/connection.ts'
import type { Job } from '../../../src/command/upkeep/database.ts'
import { MAX_KEYS, sweep } from '../../../src/command/upkeep/sweep.ts'
import { expectProperty } from '../../support/property.ts'

interface Server {
  /** How long it takes for each key; undefined: its clock stands still in scripts. */
  readonly usPerKey: number | undefined
  readonly pages: number
  readonly count?: number
}

/** Goes through a database of which only the times are real. @returns keys handed to each script */
async function goThrough({ usPerKey, pages, count }: Server) {
  let page = 0
  const answers: Readonly<Record<string, (most: number) => unknown>> = {
    INFO: () => '',
    DBSIZE: () => pages * MAX_KEYS,
    SCAN: (most) => [++page < pages ? `${page}` : '0', Array.from({ length: most }, (_, i) => `${i}`)],
  }
  const connection: Pick<Connection, 'kind' | 'send'> = {
    kind: 'redis',
    send: async ([name, ...args]) => answers[`${name}`]?.(Number(args.at(-1))),
  }
  const scripts: { readonly handed: number; readonly us: number }[] = []
  const job: Job = {
    name: 'count',
    async apply(_connection, keys, budgetUs) {
      // As by-ttl.lua, which looks at the clock at every 32nd key.
      const most = 32 * (Math.floor(budgetUs / (32 * (usPerKey ?? Number.EPSILON))) + 1)
      const changed = Math.min(keys.length, most)
      const us = usPerKey && Math.round(changed * usPerKey)
      scripts.push({ handed: keys.length, us: us ?? 0 })
      return { changed, kept: 0, gone: 0, us }
    },
  }
  const { isComplete, tally } = await sweep({ connection: connection as Connection, job, match: '*', count })
  expect([isComplete, tally.seen]).toEqual([true, pages * (count ?? MAX_KEYS)])
  return scripts
}

test('sweep() makes scripts that take half a millisecond, whatever a key takes', async () => {
  const property = fc.asyncProperty(fc.double({ min: 0.6, max: 45, noNaN: true }), async (usPerKey) => {
    const scripts = await goThrough({ usPerKey, pages: 10 })
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
    const scripts = await goThrough({ usPerKey: us, pages: 3, count })
    for (const { handed } of scripts) {
      expect(handed).toBeGreaterThanOrEqual(1)
      expect(handed).toBeLessThanOrEqual(count)
    }
  })
  await expectProperty(property, 100)
})

test('sweep() keeps scripts small where the server reports no time', async () => {
  const scripts = await goThrough({ usPerKey: undefined, pages: 5 })
  expect(Math.max(...scripts.map(({ handed }) => handed))).toBe(250)
})
