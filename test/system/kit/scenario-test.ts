/** The short form of a scenario, as a test. */
import { expect, inject, test } from 'vitest'
import { readSeed } from '../../../tools/seeded-random.ts'
import { untilConclusive } from '../../support/inconclusive.ts'
import type { Options, Scenario } from './scenario.ts'

const seed = readSeed('LOAD_SEED')

/** @param tries sizes, tried one after the other until one of them shows something: a slow machine is given more time */
export function testScenario<O extends Options>(shows: string, { run }: Scenario<O>, tries: readonly O[]): void {
  test(shows, (context) =>
    untilConclusive(context, tries, async (options) => {
      const given = { bundle: inject('bundle'), seed, signal: context.signal, progress: { answered: 0 } }
      const { wrong, missing, shown } = await run(options, given)
      expect(wrong, `LOAD_SEED=${seed}\n${shown}`).toEqual([])
      return missing.length > 0 ? missing.join('; ') : undefined
    }),
  )
}
