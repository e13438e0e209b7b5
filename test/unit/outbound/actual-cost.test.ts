/** Calls that are charged what their responses say that they have cost. */
import { expect, test } from 'vitest'
import { createLimiter, memoryStore, slidingWindow, tokenBucket } from '../../../src/index.ts'
import { outbound } from '../../../src/outbound/outbound.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const URL_OF_MODEL = 'https://model.example/v1/chat'

/** A server that takes tokens for each call, and says in its answer how many. */
function openModel(tokens: readonly number[]) {
  const clock = new VirtualClock()
  const sentMs: number[] = []
  const fetch = async () => {
    const total_tokens = tokens[sentMs.length]
    sentMs.push(clock.now())
    return Response.json({ usage: { total_tokens } })
  }
  return { clock, sentMs, fetch: fetch as typeof globalThis.fetch }
}

interface Completion {
  readonly usage: { readonly total_tokens: number }
}

const readTokens = async (response: Response) => ((await response.json()) as Completion).usage.total_tokens

const createOwnLimits = (clock: VirtualClock) => {
  const now = () => clock.now()
  const create = (policy: object) =>
    createLimiter({ now, store: memoryStore({ now }), policies: [{ name: 'tokens', ...policy } as never] })
  return {
    limits: { limits: '100/1m' },
    'a limiter': { limiter: create(slidingWindow('100/1m')) },
    'a bucket': { limiter: create(tokenBucket('100/1m')) },
  }
}

test.each(['limits', 'a limiter', 'a bucket'] as const)(
  'outbound() over %s charges what calls have really cost',
  async (name) => {
    const { clock, sentMs, fetch } = openModel([60, 40, 1])
    const own = createOwnLimits(clock)[name]
    const call = outbound(fetch, { ...own, clock, cost: 10, actualCost: readTokens, maxWaitMs: 120_000 })
    const startMs = clock.now()
    for (let at = 0; at < 2; at++) {
      const response = await clock.finish(call(URL_OF_MODEL))
      // Its body is the caller's own.
      expect(await readTokens(response)).toBe([60, 40][at])
      await clock.advance(0)
    }
    await clock.finish(call(URL_OF_MODEL))
    const waitedMs = (sentMs[2] as number) - startMs
    // Ten units are there again when those of the first call have passed, or a tenth of the bucket.
    expect([sentMs[1], waitedMs]).toEqual([startMs, name === 'a bucket' ? 6_000 : 60_000])
  },
)

test.each([
  ['limits', (_: VirtualClock) => ({ limits: '10/1s, 100/1m' })],
  [
    'a limiter',
    (clock: VirtualClock) => {
      const now = () => clock.now()
      return { limiter: createLimiter({ now, store: memoryStore({ now }), limits: '10/1s, 100/1m' }) }
    },
  ],
])('outbound() over %s charges more than the smallest limit to the others', async (_, create) => {
  const { clock, sentMs, fetch } = openModel([50, 50, 1])
  const call = outbound(fetch, { ...create(clock), clock, actualCost: readTokens, maxWaitMs: 120_000 })
  const startMs = clock.now()
  for (let at = 0; at < 3; at++) {
    await clock.finish(call(URL_OF_MODEL))
    await clock.advance(0)
  }
  expect(sentMs.map((ms) => ms - startMs)).toEqual([0, 1_000, 60_000])
})

test.each([
  ['nothing', () => undefined],
  ['what is no number', () => Number.NaN],
  ['an error', () => Promise.reject(new Error('no such member'))],
])('outbound() leaves the charge if a response tells %s', async (_, actualCost) => {
  const { clock, sentMs, fetch } = openModel([1, 1, 1])
  const call = outbound(fetch, { limits: '100/1m', clock, cost: 50, actualCost, maxWaitMs: 120_000 })
  const startMs = clock.now()
  for (let at = 0; at < 3; at++) await clock.finish(call(URL_OF_MODEL))
  expect(sentMs.map((ms) => ms - startMs)).toEqual([0, 0, 60_000])
})
