/** A limit in tokens, by the record of the API: what any window holds above it is at most what docs/policies.md says. */
import { describe, expect, inject, test } from 'vitest'
import { drawInteger, seededRandom } from '../../../tools/seeded-random.ts'
import { untilConclusive } from '../../support/inconclusive.ts'
import { formatQuestion } from '../../support/language-model.ts'
import { share } from '../../support/share.ts'
import { checkWindows } from '../../support/windows.ts'
import { formatNumber } from '../kit/table.ts'
import { ask, driveUntil, startSite, TOKENS } from './site.ts'

const LIMIT = 10_000
const WINDOW_MS = 2_000
/** A machine that is too slow to use up the limit gets more time. */
const WINDOWS = [4, 16]
const MAX_TOKENS = 1_000
const SLOTS = { one: 1, some: 16, many: 64 }

const POLICIES = [
  { name: 'tokens', limits: `${LIMIT}/${WINDOW_MS}ms`, actual_cost: TOKENS, untold: 1 },
  { name: 'in-flight', algorithm: 'concurrency', limits: SLOTS, plan: 'header:x-plan', default_plan: 'one' },
]

describe.each(['redis', 'durable-object'] as const)('over %s', (store) => {
  // Objects are those of one workerd.
  const gateways = store === 'redis' ? 2 : 1
  const site = share(() => startSite({ bundle: inject('bundle'), store, gateways, policies: POLICIES }))

  test.for(
    (['streams', 'JSON'] as const).flatMap((kind) =>
      Object.entries(SLOTS).map(([plan, slots]) => [kind, slots, plan] as const),
    ),
  )('%s, with %i in flight at most', ([kind, slots, plan], context) =>
    untilConclusive(context, WINDOWS, async (windows) => {
      const caller = `${kind}-${plan}-${windows}`
      const random = seededRandom(slots)
      let sent = 0
      await driveUntil(Date.now() + windows * WINDOW_MS, Math.ceil(1.5 * slots), () => {
        const { url } = site.gateways[sent++ % site.gateways.length] as (typeof site.gateways)[number]
        const path = formatQuestion((['openai', 'anthropic', 'compatible'] as const)[sent % 3] ?? 'openai', {
          input: drawInteger(random, 1, MAX_TOKENS / 2),
          output: drawInteger(random, 1, MAX_TOKENS / 2),
          isStream: kind === 'streams',
          pauseMs: drawInteger(random, 0, 40),
          breaks: false,
        })
        return ask(url, { path, caller, fields: { 'X-Plan': plan } })
      })
      const own = site.used.filter((answered) => answered.caller === `Bearer ${caller}`)
      const admissions = own.map(({ ms, input, output }) => ({ ms, cost: input + output }))
      const max = Math.max(...admissions.map(({ cost }) => cost))
      // Before it is known, a request costs one.
      const bound = LIMIT - 1 + slots * (max + 1)
      const { over, fullest } = checkWindows({ limit: bound, windowMs: WINDOW_MS }, admissions)
      const shown = [own.length, fullest * bound, bound].map(formatNumber)
      console.log(
        `${store}, ${kind}, ${slots} in flight: ${shown[0]} answers, ${shown[1]} tokens of at most ${shown[2]}`,
      )
      expect(over).toBe(0)
      return fullest * bound >= LIMIT ? undefined : `the limit of ${LIMIT} was never used up: ${shown[1]} at most`
    }),
  )
})
