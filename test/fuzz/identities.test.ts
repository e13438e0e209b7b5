/** What the most lenient APIs read as one caller is counted as that caller, or as nobody: never as one more. */
import { expect, inject, test } from 'vitest'
import { judgeReadings } from '../support/judge-readings.ts'
import { KINDS } from '../support/lenient-readings.ts'

const { seed, scale } = inject('fuzz')
const SPELLINGS = 1_000 * scale

test.each(KINDS)(
  `a %s that some API reads as the caller's is never another caller's (${SPELLINGS} spellings)`,
  async (kind) => {
    const { rows, dodges } = await judgeReadings(kind, { seed, spellings: SPELLINGS })
    expect(dodges.slice(0, 10)).toEqual([])
    // A reader that finds nothing shows nothing.
    for (const { reader, found } of rows) expect(found, reader).toBeGreaterThan(SPELLINGS / 100)
  },
)
