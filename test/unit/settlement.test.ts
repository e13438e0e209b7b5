/** What is charged when a response tells, does not tell, or goes on. */
import { describe, expect, test } from 'vitest'
import { isChargedLater } from '../../src/core/algorithms/decide.ts'
import { Engine, type EngineDecision } from '../../src/core/engine/engine.ts'
import type { RequestCharge } from '../../src/core/model/charge.ts'
import {
  type CostTerm,
  createReading,
  createUntold,
  type ReadCost,
  type UntoldReason,
} from '../../src/core/model/cost.ts'
import type { RequestPolicy, ResponseHead } from '../../src/core/model/policy.ts'
import type { Adjustment } from '../../src/core/model/store.ts'
import type { ReportedLimit } from '../../src/core/model/verdict.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'
import { createDigestCharge } from '../../src/http/request/charge-builder.ts'
import { RequestLimiter } from '../../src/http/request/request-limiter.ts'
import { createSettlement } from '../../src/http/request/settlement.ts'
import { createPathReader } from '../../src/http/request/target.ts'
import { callContext } from '../support/call-context.ts'

const now = () => 1_700_000_000_000
const HEAD = { status: 200, headers: new Headers() }

class CountingStore extends MemoryStore {
  readonly changes: (readonly [how: 'record' | 'settle', units: number])[] = []

  override async decide(request: Parameters<MemoryStore['decide']>[0]) {
    if (request.action === 'record') for (const { cost } of request.charges) this.changes.push(['record', cost])
    return this.decideNow(request)
  }

  override async settle(differences: readonly Adjustment[], chargedAtMs: number) {
    for (const { units } of differences) this.changes.push(['settle', units])
    await super.settle(differences, chargedAtMs)
  }
}

/** Admits a request of one policy. @returns its settlement, and what is charged after it was admitted */
async function admit(policy: object, ...others: readonly object[]) {
  const common = { name: 'own', limits: '100000/1d', algorithm: 'quota', cost: 10 }
  const policies = [policy, ...others].map((one) => ({ ...common, ...one }))
  const env = { UPSTREAM_URL: 'https://api.example.com', RATE_LIMITS: 'off', POLICIES: policies }
  const config = loadConfig(env)
  const store = new CountingStore(now)
  const lines: unknown[] = []
  const untold: unknown[] = []
  const log = (_level: string, { event, ...fields }: { readonly event: string }) => lines.push([event, fields])
  const watch = {
    onAvoided() {},
    onLeased() {},
    onUntold: (name: string, reason: UntoldReason) => untold.push([name, reason]),
  }
  const engine = new Engine({ ...config, leases: undefined, store, now, log })
  const limiter = new RequestLimiter({ ...config, engine, health: undefined, createSettlement, log, watch })
  const request = new Request('https://gateway.example/', { headers: { Authorization: 'Bearer X' } })
  const exchange = { request, path: createPathReader()('/'), context: callContext([]) }
  const verdict = await limiter.decide(exchange)
  if (verdict.outcome !== 'admitted' || !verdict.settlement) return expect.unreachable()
  return { settlement: verdict.settlement, changes: store.changes, lines, untold }
}

const TWO = { 'json:/in': 1, 'json:/out': 4 }
const readCounts =
  (counts: Readonly<Record<string, number>>, reason: UntoldReason = 'no_member'): ReadCost =>
  (term: CostTerm) => {
    const name = 'name' in term ? term.name : term.kind
    return counts[name] === undefined ? createUntold(reason) : createReading(counts[name])
  }

describe('a response', () => {
  test.each<[what: string, policy: object, counts: Record<string, number>, units: number]>([
    ['that tells all', { actual_cost: TWO, untold: 500 }, { '/in': 100, '/out': 20 }, 180],
    ['that tells less than was charged', { actual_cost: TWO, untold: 500 }, { '/in': 3, '/out': 0 }, 3],
    [
      'whose cached tokens cost less',
      { actual_cost: { 'json:/in': 1, 'json:/cached': -0.9 }, untold: 5 },
      { '/in': 100, '/cached': 80 },
      28,
    ],
    ['without those', { actual_cost: { 'json:/in': 1, 'json:/cached': -0.9 }, untold: 5 }, { '/in': 100 }, 100],
    [
      'whose sum would be below zero',
      { actual_cost: { 'json:/in': 1, 'json:/cached': -9 }, untold: 5 },
      { '/in': 10, '/cached': 80 },
      0,
    ],
    ['that rounds', { actual_cost: { 'json:/in': 0.1 }, untold: 5 }, { '/in': 30 }, 3],
  ])('%s is charged that', async (_, policy, counts, units) => {
    const { settlement, changes, lines } = await admit(policy)
    await settlement.readHead(HEAD, undefined)?.settle(readCounts(counts))
    const difference = units - 10
    expect(changes).toEqual([difference > 0 ? ['record', difference] : ['settle', difference]])
    expect(lines).toEqual([])
  })

  test.each<[what: string, policy: object, counts: Record<string, number>, units: number]>([
    ['nothing', { untold: 500 }, {}, 500],
    ['nothing, which is free', { untold: 0 }, {}, 0],
    ['a part', { untold: 50 }, { '/in': 100 }, 100],
    ['a smaller part', { untold: 500 }, { '/in': 100 }, 500],
    ['nothing but its bytes', { untold: 'bytes/4' }, { bytes: 1_001 }, 251],
    ['nothing but how long it has taken', { untold: 'ms/10' }, { ms: 900 }, 90],
  ])('that tells %s is charged what its policy says, and that is said', async (_, policy, counts, units) => {
    const { settlement, changes, lines, untold } = await admit({ actual_cost: TWO, ...policy })
    await settlement.readHead(HEAD, undefined)?.settle(readCounts(counts, 'left'))
    const difference = units - 10
    expect(changes).toEqual([difference > 0 ? ['record', difference] : ['settle', difference]])
    expect(lines).toEqual([['cost_untold', { policy: 'own', reason: 'left' }]])
    expect(untold).toEqual([['own', 'left']])
  })

  test('of which part of a table is not told is charged all the same, by an exact log as well', async () => {
    const { settlement, changes } = await admit({ algorithm: 'sliding-window', actual_cost: TWO, untold: 500 })
    await settlement.readHead(HEAD, undefined)?.settle(readCounts({}))
    expect(changes).toEqual([['record', 490]])
  })

  test.each([
    ['requests', false, 500 - 10],
    ['successes', true, 500],
    ['responses', true, 500],
    ['successes', false, undefined],
    ['failures', true, undefined],
  ])('that never came, with counts = "%s", after the API may have run: %j', async (counts, mayHaveRun, units) => {
    const { settlement, changes, untold } = await admit({ counts, actual_cost: TWO, untold: 500 })
    await settlement.readHead(undefined, undefined, mayHaveRun)?.settle(readCounts({}))
    expect(changes).toEqual(units === undefined ? [] : [['record', units]])
    expect(untold).toEqual(units === undefined ? [] : [['own', 'no_response']])
  })

  test('that goes on is charged what has passed, and at its end the rest', async () => {
    const { settlement, changes } = await admit({ actual_cost: { bytes: 1, 'json:/in': 1 }, untold: 1 })
    const cost = settlement.readHead(HEAD, undefined)
    for (const bytes of [5, 100, 100, 400]) await cost?.advance(readCounts({ bytes, '/in': 7 }))
    await cost?.settle(readCounts({ bytes: 450, '/in': 30 }))
    // It was charged 10 before.
    expect(changes).toEqual([
      ['record', 90],
      ['record', 300],
      ['record', 80],
    ])
  })
})

test('settlement asks for what can be read, and leaves what guards a change', async () => {
  const { settlement } = await admit({ actual_cost: TWO, untold: 1 })
  const given = {
    Accept: 'application/json;charset=UTF-16BE;q=0.5, text/html; charset="utf-16"',
    'Accept-Charset': 'utf-16',
    'Accept-Encoding': 'gzip',
    'If-Match': '"a"',
    'If-Modified-Since': 'Sat, 29 Oct 1994 19:43:31 GMT',
    'If-None-Match': '*',
    'If-Range': '"a"',
    'If-Unmodified-Since': 'Sat, 29 Oct 1994 19:43:31 GMT',
    Range: 'bytes=0-1',
  }
  const prepare = (method: string) => {
    const headers = new Headers(given)
    settlement.prepare(headers, method)
    return Object.fromEntries(headers)
  }
  const kept = {
    accept: 'application/json;q=0.5, text/html',
    'accept-encoding': 'identity',
    'if-match': '"a"',
    'if-unmodified-since': given['If-Unmodified-Since'],
  }
  expect(prepare('GET')).toEqual(kept)
  expect(prepare('PUT')).toEqual({ ...kept, 'if-none-match': '*', 'if-modified-since': given['If-Modified-Since'] })
  const { settlement: ofBytes } = await admit({ actual_cost: 'bytes' })
  const headers = new Headers(given)
  ofBytes.prepare(headers, 'GET')
  expect([...headers]).toEqual([...new Headers(given)])
})

test.each<[policy: object, isAborted: boolean]>([
  [{}, false],
  [{ on_disconnect: 'abort' }, true],
])('a client that leaves with %j', async (policy, isAborted) => {
  expect((await admit({ actual_cost: TWO, untold: 1, ...policy })).settlement.isAborted).toBe(isAborted)
})

test('settlement knows which terms are read, and leaves the client its response unless all policies let go', async () => {
  const [abort, untold] = [{ on_disconnect: 'abort' }, 'bytes/4']
  const { settlement } = await admit(
    { actual_cost: TWO, untold, ...abort },
    { name: 'sums', actual_cost: { ms: 0.5 } },
    { name: 'fails', counts: 'failures', actual_cost: 'header:x-cost', untold: 1 },
    { name: 'plain' },
  )
  expect(settlement.isAborted).toBe(false)
  const [every, some] = [settlement.terms, settlement.readHead(HEAD, undefined)?.terms ?? []]
  const list = (terms: readonly CostTerm[]) =>
    terms.map((term) => [term.kind, 'name' in term ? term.name : '', term.weight])
  const first = [
    ['json', '/in', 1],
    ['json', '/out', 4],
    ['bytes', '', 0.25],
    ['ms', '', 0.5],
  ]
  expect(list(every)).toEqual([...first, ['header', 'x-cost', 1]])
  expect(list(some)).toEqual(first)
  // One term in JSON suffices.
  const headers = new Headers()
  settlement.prepare(headers, 'GET')
  expect(headers.get('Accept-Encoding')).toBe('identity')
})

test.each<[what: string, read: ReadCost, units: number]>([
  ['it was not told', () => createUntold('left'), 10],
  ['two more were told', (term) => createReading(term.kind === 'bytes:request' ? 2 : 0), 4 * 7 + 12],
  ['others were told', (term) => (term.kind === 'bytes' ? createReading(100) : createUntold('left')), 100],
])('a request body that was read here is added where %s', async (_, read, units) => {
  const { settlement, changes } = await admit({ actual_cost: { bytes: 1, 'bytes:request': 4 } })
  settlement.requestBytes = 8
  await settlement.readHead(HEAD, undefined)?.settle(read)
  const difference = units - 10
  expect(changes).toEqual(difference === 0 ? [] : [['record', difference]])
})

test('a request whose measure is unknown costs what was estimated', async () => {
  const { settlement, changes, untold } = await admit({ actual_cost: TWO, untold: 'bytes/4' })
  await settlement.readHead(HEAD, undefined)?.settle(readCounts({}))
  expect([changes, untold]).toEqual([[], [['own', 'no_member']]])
})

/** Makes the settlement of charges of policies that were admitted elsewhere, with 50 units that remain of each. */
function settle(policies: readonly object[], change: Partial<RequestPolicy> = {}) {
  const common = { limits: '50/1m', by: 'ip' }
  const env = {
    UPSTREAM_URL: 'https://api.example.com',
    RATE_LIMITS: 'off',
    POLICIES: policies.map((one, at) => ({ ...common, name: `p${at}`, ...one })),
  }
  const loaded = loadConfig(env).policies.map((policy) => ({ ...policy, ...change }))
  const charges: RequestCharge[] = loaded.map((policy) => ({
    ...createDigestCharge(policy, 'digest', 'prefix'),
    ...(isChargedLater(policy) && { counts: 'failures' }),
  }))
  const limits = loaded.map((policy) => ({ policy, remaining: 5 }) as ReportedLimit)
  const recorded: (readonly [policy: string, units: number])[] = []
  const engine: Pick<Engine, 'record'> = {
    record: async (more) => {
      for (const { key, cost } of more) recorded.push([key, cost])
    },
  }
  const decision = { nowMs: 1, chargedIn: new MemoryStore(now) } as unknown as EngineDecision
  const settlement = createSettlement(charges, limits, { engine, decision, context: callContext(), log() {} })
  return { settlement, recorded }
}

test('createSettlement() has nothing to settle where no policy awaits the response', () => {
  expect(settle([{}, { cost: 3 }]).settlement).toBeUndefined()
  expect(settle([{}, { counts: 'failures' }]).settlement).toBeDefined()
})

test.each<[counts: string, status: number, isCounted: boolean]>([
  ['failures', 401, true],
  ['failures', 200, false],
  ['successes', 401, false],
  ['successes', 200, true],
  ['responses', 200, true],
  ['responses', 401, true],
])('with counts = "%s", a response of %i is counted: %s', async (counts, status, isCounted) => {
  const failures = counts === 'responses' ? {} : { failures: '401' }
  const { settlement, recorded } = settle([{ counts, cost: 4, ...failures }])
  const cost = settlement?.readHead({ ...HEAD, status }, undefined)
  if (!isCounted) return expect(cost).toBeUndefined()
  expect(cost?.limits.map(({ remaining }) => remaining)).toEqual([1])
  await cost?.settle(readCounts({}))
  expect(recorded).toEqual([['prefix:p0:w:{digest}', 4]])
})

test('a function of the application tells failures, by the head and by its own argument', () => {
  const failures = (head: ResponseHead, context: unknown) => head === HEAD && context === 'mine'
  const { settlement } = settle([{ counts: 'failures' }], { failures })
  expect(settlement?.readHead(HEAD, 'mine')).toBeDefined()
  expect(settlement?.readHead(HEAD, 'other')).toBeUndefined()
  expect(settlement?.readHead({ ...HEAD }, 'mine')).toBeUndefined()
})

test('the limits of a response show what it is charged by its head alone', () => {
  const policies = [
    {},
    { counts: 'responses', cost: 7 },
    { counts: 'responses', cost: 2, actual_cost: TWO, untold: 1 },
    { counts: 'failures', failures: '500' },
    { counts: 'responses', cost: 3 },
  ]
  const cost = settle(policies).settlement?.readHead(HEAD, undefined)
  expect(cost?.limits.map(({ remaining }) => remaining)).toEqual([5, 0, 5, 5, 2])
})

test('a response that has not told enough is settled without anybody who watches', async () => {
  const { settlement, recorded } = settle([{ counts: 'responses', actual_cost: TWO, untold: 9 }])
  await settlement?.readHead(HEAD, undefined)?.settle(readCounts({}))
  expect(recorded).toEqual([['prefix:p0:w:{digest}', 9]])
})

test.each([
  [undefined, undefined],
  ['text/html; level=1', 'text/html; level=1'],
  ['a/b ;  Charset =\tx , c/d;CHARSET="a;b,c";q=1', 'a/b , c/d;q=1'],
  ['a/b;charset=', 'a/b'],
])('settlement asks for %j as %j', async (accept, requested) => {
  const { settlement } = await admit({ actual_cost: TWO, untold: 1 })
  for (const method of ['GET', 'HEAD', 'POST']) {
    const headers = new Headers({ ...(accept && { Accept: accept }), 'If-None-Match': '*', 'If-Modified-Since': 'x' })
    settlement.prepare(headers, method)
    expect(headers.get('Accept') ?? undefined).toBe(requested)
    const isKept = method === 'POST'
    expect([headers.has('If-None-Match'), headers.has('If-Modified-Since')]).toEqual([isKept, isKept])
  }
})
