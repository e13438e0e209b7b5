/** Laws of requests of Envoy's rate limit service, in one window: an oracle counts, and judges each descriptor by its own limit. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Engine } from '../../src/core/engine/engine.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { createRequestDecider } from '../../src/ratelimit-service/decide-request.ts'
import { HitCounts } from '../../src/ratelimit-service/hit-counts.ts'
import type { Descriptor } from '../../src/ratelimit-service/messages.ts'
import { readDomains } from '../../src/ratelimit-service/rate-limits.ts'
import { START_MS } from '../support/arbitraries.ts'
import { callContext } from '../support/call-context.ts'
import { expectProperty } from '../support/property.ts'

interface Kind {
  readonly limit: number
  readonly isQuota?: boolean
  readonly isShadow?: boolean
}

const KINDS: Readonly<Record<string, Kind>> = {
  plain: { limit: 3 },
  small: { limit: 2 },
  tried: { limit: 2, isShadow: true },
  one: { limit: 1, isQuota: true },
  two: { limit: 2, isQuota: true },
  both: { limit: 2, isQuota: true, isShadow: true },
  never: { limit: 0, isQuota: true },
}

const DOMAINS = readDomains(
  [
    {
      name: 'd.yaml',
      text: JSON.stringify({
        domain: 'd',
        descriptors: Object.entries(KINDS).map(([key, { limit, isQuota = false, isShadow = false }]) => ({
          ...{ key, quota_mode: isQuota, shadow_mode: isShadow },
          rate_limit: { unit: 'hour', requests_per_unit: limit },
        })),
      }),
    },
  ],
  'closed',
)

interface Question {
  readonly key: string
  readonly hits: number
  /** A limit of its own, in place of that of the configuration. */
  readonly own: number | undefined
}

const question: fc.Arbitrary<Question> = fc.record({
  key: fc.constantFrom(...Object.keys(KINDS)),
  hits: fc.constantFrom(0, 1, 1, 2, 3),
  own: fc.option(fc.integer({ min: 0, max: 5 }), { nil: undefined, freq: 2 }),
})
const requests = fc.array(fc.array(question, { minLength: 1, maxLength: 4 }), { maxLength: 12 })

function subject(isEachAlone: boolean) {
  const now = () => START_MS
  const store = new MemoryStore(now)
  const engine = new Engine({ store, now, log: () => {}, storeTimeoutMs: 500, localShare: 1 })
  const config = { keyPrefix: 'p', onStoreError: 'closed', headerFormat: 'draft-11', isShadow: false } as const
  const counts = new HitCounts()
  const decide = createRequestDecider({
    ...{ engine, now, isEachAlone, counts, watch: undefined, note: () => {} },
    config: { ...config, identitySecret: 's'.repeat(16) },
  })
  const ask = (request: readonly Question[]) => {
    const descriptors = request.map(
      ({ key, hits, own }): Descriptor => ({
        ...{ entries: [{ key, value: 'v' }], hitsAddend: { value: hits }, isNegativeHits: false },
        limit: own === undefined ? null : { requestsPerUnit: own, unit: 'HOUR' },
      }),
    )
    return decide({ domain: 'd', descriptors, hitsAddend: 0 }, DOMAINS, callContext())
  }
  return { ask, counts }
}

const findKind = ({ key, own }: Question): Kind => (own === undefined ? (KINDS[key] as Kind) : { limit: own })

function isOver(request: readonly Question[], isFull: (question: Question) => boolean): boolean {
  const over = request.map((each) => isFull(each) && findKind(each).isShadow !== true)
  const quotas = request.flatMap((each, at) => (findKind(each).isQuota ? [over[at]] : []))
  return request.some((each, at) => over[at] && !findKind(each).isQuota) || (quotas.length > 0 && quotas.every(Boolean))
}

describe('a request of several descriptors', () => {
  test('is judged by the limit of each, and charges all or none', async () => {
    await expectProperty(
      fc.asyncProperty(requests, async (all) => {
        const { ask } = subject(false)
        const used = new Map<string, number>()
        for (const request of all) {
          const counted = request.filter((each) => findKind(each).limit > 0)
          const units = (key: string) => counted.reduce((sum, each) => sum + (each.key === key ? each.hits : 0), 0)
          const isFull = (each: Question) => {
            const { limit } = findKind(each)
            return limit === 0 || (used.get(each.key) ?? 0) + (each.hits === 0 ? 1 : units(each.key)) > limit
          }
          const expected = isOver(request, isFull)
          const { overallCode, statuses } = await ask(request)
          expect(overallCode).toBe(expected ? 'OVER_LIMIT' : 'OK')
          for (const [at, each] of request.entries()) {
            // Where a refusal is known already, the others are not looked at.
            const isSkipped = expected && statuses[at]?.currentLimit === undefined
            const code = isFull(each) && !findKind(each).isShadow ? 'OVER_LIMIT' : 'OK'
            if (!isSkipped) expect(statuses[at]?.code).toBe(code)
          }
          if (expected) continue
          for (const key of new Set(request.map((each) => each.key))) {
            // What a quota or a limit in shadow mode has no room for is not counted, unless another limit of the key pays.
            const payers = request.filter((each) => each.key === key && each.hits > 0 && !isFull(each))
            if (payers.length > 0) used.set(key, (used.get(key) ?? 0) + units(key))
          }
          for (const [at, each] of request.entries()) {
            const { limitRemaining = 0 } = statuses[at] ?? {}
            if (each.hits > 0 && findKind(each).limit > 0) {
              expect(limitRemaining).toBe(Math.max(0, findKind(each).limit - (used.get(each.key) ?? 0)))
            }
          }
        }
      }),
      2_000,
    )
  })

  test('charges each as far as its hits fit, if each is charged by itself', async () => {
    await expectProperty(
      fc.asyncProperty(requests, async (all) => {
        const { ask, counts } = subject(true)
        const used = new Map<string, number>()
        let charged = 0
        for (const request of all) {
          const full = request.map((each) => {
            const { limit } = findKind(each)
            const before = used.get(each.key) ?? 0
            const granted = Math.max(0, Math.min(each.hits, limit - before))
            used.set(each.key, before + granted)
            charged += granted
            return each.hits === 0 ? before + 1 > limit : granted < each.hits
          })
          const { overallCode } = await ask(request)
          expect(overallCode).toBe(
            isOver(request, (each) => full[request.indexOf(each)] === true) ? 'OVER_LIMIT' : 'OK',
          )
        }
        const totals = counts.list().reduce((sum, { hits, overLimit }) => sum + hits - overLimit, 0)
        expect(totals).toBe(charged)
      }),
      1_000,
    )
  })
})
