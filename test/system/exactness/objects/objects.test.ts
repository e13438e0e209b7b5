import { expect, inject, test } from 'vitest'
import { readSeed } from '../../../../tools/seeded-random.ts'
import { untilConclusive } from '../../../support/inconclusive.ts'
import { findObjectViolations } from './report-objects.ts'
import { runOverObjects } from './run-objects.ts'

const seed = readSeed('EXACTNESS_SEED')

test.for([0, 1])(
  'four gateways over Durable Objects admit no more than there is room for (ended every %i s)',
  (abortEvery, context) =>
    untilConclusive(context, [4, 8, 16], async (stretch) => {
      const site = { bundle: inject('bundle'), requests: 400, callers: 8 }
      const { outcomes, aborted, ...findings } = await runOverObjects({ ...site, seed, abortEvery, stretch })
      expect(findObjectViolations({ outcomes, aborted, ...findings }), `EXACTNESS_SEED=${seed}`).toEqual([])
      const admitted = outcomes.filter(({ status }) => status === 200).length
      if (admitted > 50 && aborted > 0 === abortEvery > 0) return undefined
      return `${admitted} of ${outcomes.length} admitted, objects ended ${aborted} times`
    }),
)
