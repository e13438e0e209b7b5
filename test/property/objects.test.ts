import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Rule } from '../../src/limit/rule.ts'
import { MemoryStore } from '../../src/store/memory/memory-store.ts'
import {
  anyBlocks,
  anyCounts,
  anyDemands,
  anyRule,
  blocking,
  counting,
  demanded,
  forwardUs,
  LONG,
  MOST_RULES,
  START_MS,
} from '../support/arbitraries.ts'
import { ObjectScript } from '../support/object-network.ts'
import { expectProperty } from '../support/property.ts'
import { EVERY_ALGORITHM, EXACT_ALGORITHMS, ruleOf, take } from '../support/rules.ts'

const MIXED: fc.Arbitrary<Rule[]> = fc.array(fc.constantFrom(...EVERY_ALGORITHM).chain(anyRule), {
  minLength: 2,
  maxLength: MOST_RULES,
})
const SUBJECTS: readonly (readonly [string, fc.Arbitrary<Rule[]>])[] = [
  ...EVERY_ALGORITHM.map((name) => [name, anyRule(name).map((rule) => [rule])] as const),
  ['several algorithms in one decision', MIXED],
]

describe.each(SUBJECTS)('%s', (_name, rules) => {
  test('objects decide as one store in memory does, however often they restart', async () => {
    const action = fc.record({
      gapUs: forwardUs.map((us) => us - (us % 1000)),
      mode: fc.constantFrom('all', 'all', 'partial', 'peek', 'charge'),
      permits: fc.integer({ min: 1, max: 5 }),
      leaseMs: fc.constantFrom(0, 0, 0, 40),
      demands: anyDemands,
      counts: anyCounts,
      blocks: anyBlocks,
    })
    await expectProperty(
      fc.asyncProperty(rules, fc.array(action, LONG), async (rules, actions) => {
        let nowUs = Math.ceil(START_MS) * 1000
        const objects = new ObjectScript(3, true)
        const twin = new MemoryStore(() => nowUs / 1000)
        const configured = rules.map((rule) => ({ before: rule, after: rule }))
        for (const { gapUs, mode, permits, leaseMs, demands, counts, blocks } of actions) {
          nowUs += gapUs
          const asked = counting(demanded(configured, demands), counts)
          // Of several, one may hold what others have reserved, as far as it knows: it then blocks nobody for it.
          const request = take(rules.length > 1 ? asked : blocking(asked, blocks), { mode, permits, leaseMs })
          // What had not been told to be kept before a restart may still be given back, as far as an object knows.
          const { isProvisional: _, ...decision } = await objects.decide(request, nowUs)
          expect(decision).toEqual(await twin.decide(request))
        }
      }),
      60,
    )
  })
})

test('a decision writes one row, and moves older ones in bulk, whatever the window holds', async () => {
  const objects = new ObjectScript(Number.POSITIVE_INFINITY)
  const rule = ruleOf('sliding-window', [{ limit: 100_000, windowMs: 3_600_000 }])
  const rows = objects.network.rows(rule.key)
  let most = 0
  for (let i = 0; i < 5_000; i++) {
    const before = rows.written
    await objects.decide(take([rule]), START_MS * 1000 + i * 1000)
    most = Math.max(most, rows.written - before)
  }
  expect(most).toBeLessThanOrEqual(2)
  expect(rows.written).toBeLessThan(5_000 * 1.01)
})

/** Two rules of one decision, of which the second refuses from the third permit on. */
function withAnother(rule: Rule): Rule[] {
  return [rule, ruleOf('quota', [{ limit: 2, windowMs: 3_600_000 }])]
}

test.each(EXACT_ALGORITHMS)('%s: what a refused request needs no more is there for longer windows', async (name) => {
  const objects = new ObjectScript()
  const [long, other] = withAnother(ruleOf(name, [{ limit: 2, windowMs: 3_000 }])) as [Rule, Rule]
  const short = { ...long, tiers: [{ limit: 2, windowMs: 10 }] }
  const atUs = (ms: number) => (START_MS + ms) * 1000
  expect((await objects.decide(take([long]), atUs(0))).granted).toBe(1)
  expect((await objects.decide(take([short, other], { permits: 3 }), atUs(100))).granted).toBe(0)
  expect((await objects.decide(take([short, { ...other, cost: 3 }], { permits: 1 }), atUs(100))).granted).toBe(0)
  const { usage } = await objects.peek(take([long]), atUs(200))
  expect(usage).toEqual([[{ remaining: 1, resetMs: 2_800, retryAfterMs: 0 }]])
})

test.each(EXACT_ALGORITHMS)(
  '%s: what has left the windows stays away after a restart, also if they grow',
  async (name) => {
    const short = ruleOf(name, [{ limit: 2, windowMs: 10 }])
    const long = { ...short, tiers: [{ limit: 2, windowMs: 3_000 }] }
    const objects = new ObjectScript(1)
    for (const ms of [0, 100]) await objects.decide(take([short]), (START_MS + ms) * 1000)
    expect((await objects.decide(take([long]), (START_MS + 200) * 1000)).granted).toBe(1)
  },
)

test('token-bucket: of a lease that is granted in part, what refills meanwhile is told as given up', async () => {
  const bucket = ruleOf('token-bucket', [{ limit: 10, windowMs: 100 }], { enforced: false })
  const objects = new ObjectScript()
  const request = take(withAnother(bucket), { mode: 'partial', permits: 10, leaseMs: 50 })
  const { granted, usage } = await objects.decide(request, START_MS * 1000)
  // Five units would refill in the term of the lease.
  expect([granted, usage[0]?.[0]?.remaining]).toEqual([2, 3])
})
