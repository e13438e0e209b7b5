import { describe, expect, inject, test } from 'vitest'
import { readSeed } from '../../../tools/seeded-random.ts'
import { untilConclusive } from '../../support/inconclusive.ts'
import { PLACE_NAMES } from './places.ts'
import { countByAnswer, countOverlaps, formatFindings, listVerdicts, run } from './run.ts'

const seed = readSeed('HISTORIES_SEED')
const MIN_SEEN = 5

describe.each(PLACE_NAMES)('%s', (place) => {
  test('answers calls under load, with faults, as if they came one after the other', (context) =>
    untilConclusive(context, [4_000, 12_000], async (requests) => {
      const findings = await run({ place, bundle: inject('bundle'), requests, lanes: 12, seed })
      console.log(formatFindings(place, findings))
      expect(listVerdicts(place, findings, 'violated'), `HISTORIES_SEED=${seed}`).toEqual([])
      const [undecided] = listVerdicts(place, findings, 'undecided')
      if (undecided) return undecided
      const { calls } = findings
      const counts = { ...countByAnswer(calls), overlapping: countOverlaps(calls) }
      if (Math.min(...Object.values(counts)) >= MIN_SEEN) return undefined
      return `of some there were fewer than ${MIN_SEEN}: ${JSON.stringify(counts)}`
    }))
})
