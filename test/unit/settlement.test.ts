/** What is charged when a response tells, does not tell, or goes on. */
import { describe, expect, test } from 'vitest'
import { Engine } from '../../src/core/engine/engine.ts'
import {
  type CostTerm,
  createReading,
  createUntold,
  type ReadCost,
  type UntoldReason,
} from '../../src/core/model/cost.ts'
import type { Adjustment } from '../../src/core/model/store.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'
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
async function admit(policy: object) {
  const common = { name: 'own', limits: '100000/1d', algorithm: 'quota', cost: 10 }
  const env = { UPSTREAM_URL: 'https://api.example.com', RATE_LIMITS: 'off', POLICIES: [{ ...common, ...policy }] }
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
