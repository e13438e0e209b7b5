import * as v from 'valibot'
import { integer } from '../../config/values.ts'
import { deedsAbout } from '../../rules/journal.ts'
import { refusalsOf } from '../../statistics/refusals-of.ts'
import { KEPT_MS, PERIOD_MS } from '../../store/counters.ts'
import { caller } from '../caller-schema.ts'
import { digestsOf } from '../digests-of.ts'
import { defineOperation, type Operated } from '../operation.ts'

const units = v.pipe(v.number(), v.integer(), v.minValue(0))

const refusals = v.strictObject({
  periodMs: units,
  fromMs: v.number(),
  toMs: v.number(),
  periods: v.pipe(
    v.array(
      v.strictObject({
        startMs: v.number(),
        policies: v.pipe(
          v.array(v.strictObject({ policy: v.string(), atLeast: units, atMost: units })),
          v.description('Policies that are known to have refused it.'),
        ),
        othersAtMost: v.pipe(
          units,
          v.description('How often any other policy may have refused it: it was not among the callers refused most.'),
        ),
      }),
    ),
    v.description('Those in which anything was counted, the earliest first.'),
  ),
})

export const history = defineOperation({
  method: 'POST',
  path: '/history',
  summary: 'When a caller was refused, and what was done about it',
  description:
    'Refusals are those of the periods in which the caller was among those refused most; what it has used is not kept by ' +
    'time. Of what was done, the last 500 blocks, allows, overrides and resets that name one caller are kept: not those of ' +
    'networks, countries and parts of values.',
  body: v.strictObject({
    caller,
    by: v.optional(v.picklist(['minute', 'hour']), 'hour'),
    periods: v.optional(v.pipe(integer(1, 720), v.description('How many, the one that is not over among them.')), 24),
  }),
  answer: v.strictObject({
    refusals: v.pipe(v.nullable(refusals), v.description('Null: nothing is counted (STATISTICS).')),
    deeds: v.pipe(
      v.nullable(
        v.array(
          v.strictObject({
            atMs: v.pipe(v.number(), v.description('Milliseconds since the Unix epoch.')),
            by: v.string(),
            what: v.string(),
            why: v.string(),
          }),
        ),
      ),
      v.description('The latest first; null: nothing is noted (RULES).'),
    ),
  }),
  async run(operated, { body: { caller, by, periods } }) {
    const digests = await digestsOf(caller, operated)
    const { governed } = operated
    const deeds = governed && (await deedsAbout(governed.journal, digests))
    return {
      refusals: await refusalsIn(operated, digests, by, periods),
      deeds: deeds?.map(({ atMs, by, what, why }) => ({ atMs, by, what, why })) ?? null,
    }
  },
})

async function refusalsIn(
  { counters, now }: Operated,
  digests: ReadonlySet<string>,
  resolution: 'minute' | 'hour',
  periods: number,
): Promise<v.InferOutput<typeof refusals> | null> {
  if (!counters) return null
  const toMs = now() + 1
  const fromMs = Math.max(toMs - KEPT_MS[resolution], toMs - periods * PERIOD_MS[resolution])
  return refusalsOf(counters, digests, { resolution, fromMs, toMs })
}
