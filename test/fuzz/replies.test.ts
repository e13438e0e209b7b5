import fc from 'fast-check'
import { afterEach, describe, expect, vi } from 'vitest'
import type { Decision, DecisionRequest } from '../../src/core/model/charge.ts'
import type { Store } from '../../src/core/model/store.ts'
import { StoreError } from '../../src/core/model/store.ts'
import { LUA } from '../../src/core/store/redis/more-lua.ts'
import { readDecision } from '../../src/core/store/redis/script.ts'
import { openUpstashBackend } from '../../src/core/store/redis/upstash-backend.ts'
import { createCharge, EVERY_ALGORITHM, take } from '../support/charges.ts'
import { fuzz } from './fuzz.ts'
import { anyText } from './strings.ts'

// Between a Worker and Redis lie proxies, other databases, and people. Whatever comes back is a decision or a StoreError.

const TOKEN = 'hush-token'
const LIMITS = [
  { limit: 5, windowMs: 1_000 },
  { limit: 40, windowMs: 60_000 },
]

const request: fc.Arbitrary<DecisionRequest> = fc
  .record({
    action: fc.constantFrom('take' as const, 'take-up-to' as const, 'peek' as const),
    permits: fc.integer({ min: 1, max: 3 }),
    charges: fc.array(
      fc.record({
        algorithm: fc.constantFrom('sliding-window' as const, 'quota' as const, 'token-bucket' as const),
        cost: fc.integer({ min: 1, max: 3 }),
        mode: fc.constantFrom('enforce' as const, 'shadow' as const),
        hasLimits: fc.boolean(),
      }),
      { minLength: 1, maxLength: 3 },
    ),
  })
  .map(({ action, permits, charges }) => {
    const all = charges.map(({ algorithm, cost, mode, hasLimits }) => {
      const limits = algorithm !== 'token-bucket' && hasLimits ? LIMITS : LIMITS.slice(0, 1)
      return createCharge(algorithm, limits, { cost, mode, ...(algorithm === 'token-bucket' && { burst: 9 }) })
    })
    return take(all, { action, permits })
  })

const smallInteger = fc.oneof(
  fc.integer({ min: -1, max: 10 }),
  fc.constant(0),
  fc.integer({ min: 0, max: 70_000 }),
  fc.constantFrom(-1, 1.5, 2 ** 53, Number.MAX_SAFE_INTEGER, 1e21),
)
const looseValue = fc.oneof(
  { arbitrary: smallInteger, weight: 30 },
  { arbitrary: fc.constantFrom<unknown>(null, '1', '', true, [], {}, 'NaN'), weight: 1 },
)

/** In the place of one number of a reply that is right. */
const wrong = fc.constantFrom<unknown>(null, undefined, '4', 1.5, 2 ** 53, -1, 0, 1, 5, 1_000_000, [3], { length: 1 })

/** As long as a reply to this request is, of what such a reply is made of. */
function repliesTo({ permits, charges }: DecisionRequest): fc.Arbitrary<unknown> {
  const limits = charges.flatMap(({ limits, burst }) => limits.map(({ limit }) => burst ?? limit))
  const header = fc.tuple(fc.integer({ min: 0, max: permits }), fc.integer({ min: 1.7e12, max: 1.8e12 }))
  const triple = (limit: number) => {
    return fc.tuple(
      fc.integer({ min: 0, max: limit }),
      fc.integer({ min: 0, max: 60_000 }),
      fc.oneof(fc.constant(0), fc.constant(0), fc.integer({ min: 1, max: 60_000 })),
    )
  }
  const likely = fc.tuple(header, ...limits.map(triple)).map((parts) => parts.flat())
  /** Of which nothing contradicts itself. */
  const granting = likely.map(([, nowMs, ...states]) => [
    permits,
    nowMs,
    ...states.map((n, at) => (at % 3 < 2 ? n : 0)),
  ])
  const size = 2 + 3 * limits.length
  return fc.oneof(
    { arbitrary: likely, weight: 6 },
    { arbitrary: fc.constant(Array<number>(size).fill(0)), weight: 1 },
    { arbitrary: fc.array(looseValue, { minLength: size, maxLength: size }), weight: 3 },
    {
      arbitrary: fc.oneof(
        likely.map((reply) => reply.slice(1)),
        likely.map((reply) => [...reply, 0]),
      ),
      weight: 1,
    },
    {
      arbitrary: fc
        .tuple(granting, fc.nat(), wrong)
        .map(([reply, at, wrong]) => (reply as unknown[]).with(at % size, wrong)),
      weight: 4,
    },
    { arbitrary: fc.jsonValue(), weight: 1 },
  )
}

const exchange = request.chain((request) => repliesTo(request).map((reply) => ({ request, reply })))

/** What can be said of any decision on this request, whatever Redis holds. */
function expectConsistent({ action, permits, charges }: DecisionRequest, { granted, nowMs, usage }: Decision): void {
  expect([Number.isSafeInteger(granted), Number.isSafeInteger(nowMs), nowMs > 0]).toEqual([true, true, true])
  expect(action === 'take-up-to' ? granted >= 0 && granted <= permits : [0, permits].includes(granted)).toBe(true)
  expect(usage.map((limits) => limits.length)).toEqual(charges.map(({ limits }) => limits.length))
  for (const [index, { limits, burst }] of charges.entries()) {
    for (const [at, { remaining, resetMs, retryAfterMs }] of (usage[index] ?? []).entries()) {
      expect([remaining, resetMs, retryAfterMs].every((value) => Number.isSafeInteger(value) && value >= 0)).toBe(true)
      expect(remaining).toBeLessThanOrEqual(burst ?? limits[at]?.limit ?? 0)
    }
  }
  // It is refused if, and only if, a charge that may refuse says for how long.
  const refuses = charges.some(
    (charge, index) => charge.mode === 'enforce' && usage[index]?.some(({ retryAfterMs }) => retryAfterMs > 0),
  )
  expect(granted === 0).toBe(refuses)
}

/** The decision, or undefined for a StoreError; anything else that is thrown is a failure of the test. */
async function findAnswer(decide: () => Decision | Promise<Decision>): Promise<Decision | undefined> {
  try {
    return await decide()
  } catch (error) {
    expect(error).toBeInstanceOf(StoreError)
    expect((error as StoreError).message).not.toContain(TOKEN)
    expect((error as StoreError).message).not.toMatch(/[\r\n]/)
    return undefined
  }
}

describe('readDecision()', () => {
  fuzz(
    'readDecision() answers a decision that is consistent, or throws a StoreError, to any reply',
    1_000,
    fc.asyncProperty(exchange, async ({ request, reply }) => {
      const decision = await findAnswer(() => readDecision(reply, request))
      if (!decision) return
      expectConsistent(request, decision)
      const triples = decision.usage
        .flat()
        .map(({ remaining, resetMs, retryAfterMs }) => [remaining, resetMs, retryAfterMs])
      expect([decision.granted, decision.nowMs, ...triples.flat()]).toEqual(reply)
    }),
  )
})

afterEach(() => vi.unstubAllGlobals())

function createStore(timeoutMs = 5_000): Store {
  return openUpstashBackend({
    url: 'https://eu1.upstash.example',
    token: TOKEN,
    algorithms: new Set(EVERY_ALGORITHM),
    moreLua: LUA,
    timeoutMs,
  }).limits
}

interface Raw {
  readonly status: number
  readonly type: string
  readonly body: Uint8Array
  /** The connection is cut after this share of the body. */
  readonly cutAt: number | undefined
}

const countBytes = (text: string) => new TextEncoder().encode(text)
const MESSAGES = [
  ...['NOSCRIPT No matching script.', 'ERR Unexpected flag in script shebang', `WRONGPASS ${TOKEN}`, 'OOM command', ''],
  ...[`a line\r\nand another, with ${TOKEN}`, `x, command was: ["evalsha"]`, '{"error":"x"}'],
]

function readRaw(reply: unknown): fc.Arbitrary<Raw> {
  const json = JSON.stringify({ result: reply })
  const body = fc.oneof(
    { arbitrary: fc.constant(countBytes(json)), weight: 4 },
    { arbitrary: fc.nat({ max: json.length }).map((length) => countBytes(json.slice(0, length))), weight: 2 },
    {
      arbitrary: fc.oneof(fc.constantFrom(...MESSAGES), anyText).map((error) => countBytes(JSON.stringify({ error }))),
      weight: 2,
    },
    { arbitrary: fc.jsonValue().map((value) => countBytes(JSON.stringify(value))), weight: 1 },
    { arbitrary: fc.jsonValue().map((error) => countBytes(JSON.stringify({ error }))), weight: 1 },
    { arbitrary: fc.constant(countBytes(JSON.stringify({ result: Buffer.from(json).toString('base64') }))), weight: 1 },
    { arbitrary: fc.constant(countBytes('<!doctype html><title>502</title>')), weight: 1 },
    { arbitrary: fc.uint8Array({ maxLength: 60 }), weight: 1 },
  )
  return fc.record({
    status: fc.oneof(
      { arbitrary: fc.constant(200), weight: 6 },
      { arbitrary: fc.integer({ min: 200, max: 599 }), weight: 4 },
    ),
    type: fc.constantFrom('application/json', 'text/html', ''),
    body,
    cutAt: fc.option(fc.double({ min: 0, max: 1, noNaN: true }), { freq: 9 }),
  })
}

/** An answer of the network, or what fetch rejects with. */
function answer({ status, type, body, cutAt }: Raw): Response {
  const headers: Record<string, string> = type ? { 'Content-Type': type } : {}
  if ([204, 205, 304].includes(status)) return new Response(null, { status, headers })
  if (cutAt === undefined) return new Response(body as Uint8Array<ArrayBuffer>, { status, headers })
  const stream = new ReadableStream({
    start(controller) {
      controller.enqueue(body.slice(0, Math.floor(body.length * cutAt)))
      controller.error(new TypeError('terminated'))
    },
  })
  return new Response(stream, { status, headers })
}

describe('RedisStore', () => {
  const raw = exchange.chain(({ request, reply }) =>
    fc.record({
      request: fc.constant(request),
      reply: fc.constant(reply),
      raws: fc.array(readRaw(reply), { minLength: 1, maxLength: 4 }),
    }),
  )

  fuzz(
    'RedisStore#decide() answers a decision that is consistent, or throws a StoreError, to any answers of the network',
    500,
    fc.asyncProperty(raw, async ({ request, reply, raws }) => {
      let calls = 0
      vi.stubGlobal('fetch', async () => answer(raws[Math.min(calls++, raws.length - 1)] as Raw))
      const decision = await findAnswer(() => createStore().decide(request))
      // Two variants of the script, each by its hash and by its text.
      expect(calls).toBeLessThanOrEqual(4)
      if (!decision) return
      expectConsistent(request, decision)
      expect(decision.granted).toBe((reply as number[])[0])
    }),
  )

  const anyFailure = fc.oneof(
    fc.constantFrom<unknown>(
      new TypeError('fetch failed'),
      new DOMException('x', 'AbortError'),
      new DOMException('y', 'TimeoutError'),
    ),
    fc.constantFrom<unknown>(undefined, null, 'a string', 42, {}, new Error(`a line\nand ${TOKEN}`)),
    fc.anything(),
  )
  fuzz(
    'RedisStore throws a StoreError whatever fetch rejects with',
    100,
    fc.asyncProperty(anyFailure, async (failure) => {
      vi.stubGlobal('fetch', () => Promise.reject(failure))
      const charge = createCharge('concurrency', [{ limit: 2, windowMs: 1_000 }], { slot: 1 })
      const store = createStore()
      const calls = [store.decide(take([charge])), store.release([charge]), store.renew([charge]), store.ping()]
      for (const result of await Promise.allSettled(calls)) {
        expect(result.status).toBe('rejected')
        await findAnswer(() => Promise.reject((result as PromiseRejectedResult).reason))
      }
    }),
  )

  const anyRaw = fc.jsonValue().chain(readRaw)
  fuzz(
    'RedisStore#release(), #renew(), #settle() and #ping() end well, or with a StoreError, to any answer of the network',
    200,
    fc.asyncProperty(anyRaw, async (raw) => {
      vi.stubGlobal('fetch', async () => answer(raw))
      const slot = createCharge('concurrency', [{ limit: 2, windowMs: 1_000 }], { slot: 1 })
      const quota = createCharge('quota', [{ limit: 2, windowMs: 1_000 }])
      const store = createStore()
      const calls = [
        store.release([slot]),
        store.renew([slot]),
        store.ping(),
        store.settle([{ charge: quota, units: 1 }], 1),
      ]
      for (const result of await Promise.allSettled(calls)) {
        if (result.status === 'rejected') await findAnswer(() => Promise.reject(result.reason))
      }
    }),
  )
})
