import { expect, test } from 'vitest'
import type { StoreCharge } from '../../../src/core/model/charge.ts'
import type { RequestPolicy } from '../../../src/core/model/policy.ts'
import { StoreError } from '../../../src/core/model/store.ts'
import { type ReportedLimit, toWholeMs, type Verdict } from '../../../src/core/model/verdict.ts'
import { type Flush, SKETCH_CAPACITY } from '../../../src/core/store/counters.ts'
import { MemoryStore } from '../../../src/core/store/memory/memory-store.ts'
import { MemoryCounters } from '../../../src/core/store/memory/memory-tables.ts'
import { createLabelReader } from '../../../src/gateway/statistics/label.ts'
import { readStatistics } from '../../../src/gateway/statistics/read-statistics.ts'
import { Recorder } from '../../../src/gateway/statistics/recorder.ts'
import { loadConfig } from '../../../src/http/config/load-config.ts'
import type { Observed } from '../../../src/http/response/exchange.ts'
import { createCharge } from '../../support/charges.ts'

const START_MS = 1_800_000_000_000
const MINUTE = 60_000

const { policies } = loadConfig({
  UPSTREAM_URL: 'https://api.example.com',
  POLICIES: [
    { name: 'login', limits: '5/1m', match: 'POST /login/:realm' },
    { name: 'trial', limits: '5/1m', mode: 'shadow' },
    { name: 'urgent', priority: 'critical' },
  ],
})
const [login, trial, urgent] = policies as [RequestPolicy, RequestPolicy, RequestPolicy]

function observed(verdict: Verdict, headers: Record<string, string> = {}): Observed {
  const matches = [
    { policy: login, route: 'POST /login/:realm', isCertain: true },
    { policy: trial, route: undefined, isCertain: true },
    { policy: urgent, route: undefined, isCertain: true },
  ]
  const charge = { algorithm: 'sliding-window', limits: [], cost: 1, mode: 'enforce', reserved: 0 } as const
  return {
    request: new Request('https://gateway.example/login/secret-realm', { headers }),
    verdict,
    trace: {
      matches,
      charges: matches.slice(0, 2).map(({ policy }) => ({
        ...charge,
        policy,
        digest: `of-${policy.name}`,
        key: `sluice:p:w:{of-${policy.name}}`,
      })),
    },
  }
}

function limit(policy: RequestPolicy, retryAfterMs = 0, isReserve = false): ReportedLimit {
  const [first] = policy.limits
  if (!first) throw new Error('the policy has no limit')
  return { ...first, policy, isReserve, remaining: 0, resetMs: toWholeMs(1), retryAfterMs: toWholeMs(retryAfterMs) }
}

function subject(readLabel = createLabelReader({ kind: 'header', name: 'x-account' })) {
  const clock = { now: START_MS }
  const wakes: (() => void)[] = []
  const waits: number[] = []
  const lines: unknown[] = []
  const counters = new MemoryCounters(() => clock.now)
  const flushes: Flush[] = []
  const state = { fails: false }
  const recorder = new Recorder({
    keepsRecent: true,
    counters: {
      async add(flush) {
        flushes.push(flush)
        if (state.fails) throw new StoreError('Redis is unavailable')
        await counters.add(flush)
      },
    },
    readLabel,
    now: () => clock.now,
    wait(ms) {
      waits.push(ms)
      return new Promise<void>((resolve) => wakes.push(resolve))
    },
    log: (level, fields) => lines.push({ level, ...fields }),
  })
  const works: Promise<unknown>[] = []
  const context = { waitUntil: (work: Promise<unknown>) => void works.push(work) }
  return {
    ...{ clock, waits, lines, counters, flushes, state, recorder, works, context },
    /** Ends the wait that was begun first. */
    async wake() {
      wakes.shift()?.()
      await new Promise((resolve) => setTimeout(resolve))
    },
    read: () => readStatistics(counters, { resolution: 'minute', fromMs: START_MS, toMs: clock.now + 1 }),
  }
}

const ADMITTED: Verdict = { outcome: 'admitted', limits: [limit(login), limit(trial)] }

test('Recorder sends what it counts of an answer that comes after the rest of its request was sent', async () => {
  const { recorder, context, wake, read } = subject()
  recorder.onDecided(observed(ADMITTED), context)
  await wake()
  recorder.onAnswered(observed(ADMITTED), 502, context)
  await wake()
  expect((await read()).total.upstream5xx).toBe(1)
})

test('Recorder counts what each block has refused, by whom it is about', async () => {
  const { recorder, context, wake, read } = subject()
  const rules = ['192.0.2.0/24', 'country DE', 'header:x-tenant Ünit *\n\ud800', '192.0.2.0/24', undefined]
  for (const rule of rules) {
    recorder.onDecided(observed({ outcome: 'blocked', status: 403, ...(rule !== undefined && { rule }) }), context)
  }
  await wake()
  const { total, rules: refusing } = await read()
  expect(total.requests.blocked).toBe(5)
  expect(refusing).toEqual([
    { target: '192.0.2.0/24', max: 2, min: 2 },
    { target: 'country DE', max: 1, min: 1 },
    { target: 'header:x-tenant Ünit *\n\ufffd', max: 1, min: 1 },
  ])
})

test('Recorder counts requests by outcome, and by policy and its pattern', async () => {
  const { recorder, context, wake, read } = subject()
  const limited: Verdict = {
    ...{ outcome: 'limited', retryAfterMs: toWholeMs(9) },
    ...{ limits: [limit(login, 9), limit(trial)], violated: [limit(login, 9)] },
  }
  const verdicts: Verdict[] = [
    ADMITTED,
    { outcome: 'admitted', limits: [limit(login), limit(trial, 5)] },
    { ...ADMITTED, degraded: 'local, open' },
    limited,
    limited,
    {
      ...{ outcome: 'deprioritized', retryAfterMs: toWholeMs(9) },
      ...{ limits: [limit(login, 9, true), limit(trial)], violated: [limit(login, 9, true)] },
    },
    { outcome: 'shed', retryAfterMs: toWholeMs(1) },
    { outcome: 'unidentified', status: 401, policy: login },
    { outcome: 'invalid_cost', status: 400, header: 'x-cost', max: 3 },
    { outcome: 'unavailable', degraded: 'closed' },
  ]
  for (const verdict of verdicts) recorder.onDecided(observed(verdict, { 'X-Account': 'ACME' }), context)
  recorder.onDecided({ ...observed({ outcome: 'ambiguous_path' }), trace: { matches: [], charges: [] } }, context)
  recorder.onUndecided('bad_request', context)
  recorder.onUndecided('failed', context)
  for (const status of [200, 500, 502]) recorder.onAnswered(observed(ADMITTED), status, context)
  await wake()
  const { total, refused } = await read()
  expect(total.requests).toEqual({
    ...{ admitted: 3, limited: 2, deprioritized: 1, shed: 1, blocked: 0, unidentified: 1 },
    ...{ bad_request: 3, unavailable: 1, failed: 1 },
  })
  expect(total.degraded).toEqual({ local: 0, open: 0, 'local, open': 1, closed: 1 })
  expect(total.upstream5xx).toBe(2)
  const none = { admitted: 0, limited: 0, deprioritized: 0, shed: 0, unidentified: 0, bad_request: 0, unavailable: 0 }
  expect(total.policies).toEqual([
    {
      policy: 'login',
      route: 'POST /login/:realm',
      requests: {
        ...{ admitted: 3, limited: 2, deprioritized: 1, shed: 1, unidentified: 1, bad_request: 1, unavailable: 1 },
        ...{ refused_by_another: 0, shadow_limited: 0 },
      },
    },
    {
      policy: 'trial',
      route: '*',
      requests: {
        ...none,
        ...{ admitted: 2, shed: 1, bad_request: 1, unavailable: 1, refused_by_another: 4, shadow_limited: 1 },
      },
    },
  ])
  expect(total.limits).toEqual([
    { name: 'login-1m', refusals: 3 },
    { name: 'trial-1m', refusals: 1 },
  ])
  // Only those that an enforced policy has refused.
  expect(refused.callers).toEqual([
    { policy: 'login', digest: 'of-login', max: 3, min: 3, shared: false, label: 'ACME' },
  ])
})

test('Recorder keeps as few names for a thousand made-up callers and paths as for one, and of callers those of a sketch', async () => {
  async function countNames(callers: number): Promise<readonly [counts: number, refused: number]> {
    const { recorder, context, wake, flushes } = subject()
    const violated = [limit(login, 9)]
    for (let i = 0; i < callers; i++) {
      const { trace, ...others } = observed({
        outcome: 'limited',
        retryAfterMs: toWholeMs(9),
        limits: violated,
        violated,
      })
      const charges = trace.charges.map((charge) => ({ ...charge, digest: `caller-${i}` }))
      const request = new Request(`https://gateway.example/login/${i}?key=${i}`, { method: i % 2 ? 'POST' : 'PUT' })
      recorder.onDecided({ ...others, request, trace: { ...trace, charges } }, context)
    }
    await wake()
    const [minute] = flushes[0]?.minutes ?? []
    return [minute?.counts.size ?? 0, minute?.sketches.get('refused')?.items.length ?? 0]
  }
  const [counts, refused] = await countNames(1)
  expect([counts > 0, refused]).toEqual([true, 1])
  expect(await countNames(1_000)).toEqual([counts, SKETCH_CAPACITY])
})

test('Recorder counts in the minute in which something happens', async () => {
  const { recorder, context, clock, wake, read } = subject()
  const store = new MemoryStore(() => clock.now)
  const charge = createCharge('sliding-window', [{ limit: 1, windowMs: 60_000 }])
  const decide = (answer: typeof store.decide) =>
    recorder
      .withTiming(Object.assign(store, { decide: answer }))
      .decide({ action: 'take', permits: 1, charges: [charge] })
  recorder.onDecided(observed(ADMITTED), context)
  await decide(async (request) => {
    clock.now += 3
    return store.decideNow(request)
  })
  for (let i = 0; i < 4; i++) recorder.onAvoided('leases')
  recorder.onLeased(6)
  clock.now += MINUTE
  recorder.onDecided(observed(ADMITTED), context)
  await expect(decide(() => Promise.reject(new StoreError('unavailable')))).rejects.toThrow('unavailable')
  recorder.onAvoided('leases')
  await wake()
  const { periods } = await read()
  expect(
    periods.map(({ startMs, requests, store, callsAvoided, leases }) => ({
      ...{ startMs, admitted: requests.admitted, calls: store.calls, failures: store.failures },
      ...{ leases: callsAvoided.leases, permits: leases.permits, sumMs: store.latency.sumMs },
    })),
  ).toEqual([
    { startMs: START_MS, admitted: 1, calls: 1, failures: 0, leases: 4, permits: 6, sumMs: 3 },
    { startMs: START_MS + MINUTE, admitted: 1, calls: 1, failures: 1, leases: 1, permits: 0, sumMs: 0 },
  ])
})

test('Recorder counts the units of policies with costs: what is charged, and later corrected', async () => {
  const { recorder, context, clock, wake, read } = subject()
  const store = recorder.withTiming(new MemoryStore(() => clock.now))
  const POLICIES = [
    { name: 'fixed', limits: '9/1m', cost: 5 },
    { name: 'bytes', limits: '1000/1m', algorithm: 'quota', cost: 100, actual_cost: 'bytes' },
    { name: 'later', limits: '1000/1m', counts: 'responses', actual_cost: 'bytes' },
    { name: 'trial', limits: '9/1m', cost: 6, mode: 'shadow' },
    { name: 'plain', limits: '9/1m' },
  ]
  const { policies } = loadConfig({ UPSTREAM_URL: 'https://api.example.com', RATE_LIMITS: 'off', POLICIES })
  const charges = policies.map((policy) => ({
    ...createCharge(policy.algorithm, policy.limits, {
      cost: policy.cost.kind === 'fixed' ? policy.cost.units : 1,
      mode: policy.mode,
      counts: policy.counts === 'responses' ? 'failures' : 'requests',
    }),
    policy,
    digest: 'of-one',
  }))
  const findCharge = (name: string): StoreCharge => {
    const found = charges.find(({ policy }) => policy.name === name)
    if (!found) throw new Error(`no policy ${name}`)
    return found
  }
  const [fixed, bytes, later] = [findCharge('fixed'), findCharge('bytes'), findCharge('later')]
  recorder.onDecided(observed(ADMITTED), context)
  const { nowMs } = await store.decide({ action: 'take', permits: 1, charges })
  await store.decide({ action: 'peek', permits: 1, charges: [fixed] })
  // Refused: five units are left of nine, less five.
  await store.decide({ action: 'take', permits: 1, charges })
  await store.decide({ action: 'record', permits: 1, charges: [{ ...later, cost: 70 }] })
  await store.settle([{ charge: bytes, units: -60 }], nowMs)
  await store.decide({ action: 'take', permits: 1, charges: [bytes] })
  await store.settle([{ charge: bytes, units: 400 }], nowMs)
  await wake()
  expect((await read()).total.units).toEqual([
    { policy: 'bytes', units: 540 },
    { policy: 'fixed', units: 5 },
    { policy: 'later', units: 70 },
    { policy: 'trial', units: 6 },
  ])
})

test('Recorder lets the first request send what all have counted, 20 seconds later', async () => {
  const { recorder, context, works, waits, flushes, wake, clock } = subject()
  for (let i = 0; i < 5; i++) recorder.onDecided(observed(ADMITTED), context)
  expect(works).toHaveLength(1)
  expect(waits).toEqual([20_000])
  expect(flushes).toHaveLength(0)
  clock.now += 20_000
  await wake()
  expect(flushes).toHaveLength(1)
  expect(flushes[0]?.number).toBe(1)
  expect(flushes[0]?.minutes.map(({ counts }) => counts.get('requests admitted'))).toEqual([5])
  await Promise.all(works)
  // The next one sees to the next flush.
  recorder.onDecided(observed(ADMITTED), context)
  expect(works).toHaveLength(2)
})

test('Recorder keeps a flush that has failed, and sends it again as it was', async () => {
  const { recorder, context, state, flushes, waits, wake, clock, lines, read } = subject()
  state.fails = true
  recorder.onDecided(observed(ADMITTED), context)
  await wake()
  recorder.onDecided(observed(ADMITTED), context)
  expect(lines).toEqual([
    { level: 'warn', event: 'statistics_send_failed', message: 'Redis is unavailable', requests: 1 },
  ])
  expect(waits).toEqual([20_000, 2_000, 20_000])
  await wake()
  expect(flushes[1]).toBe(flushes[0])
  state.fails = false
  clock.now += MINUTE
  await wake()
  expect(flushes.map(({ number }) => number)).toEqual([1, 1, 1, 2])
  expect((await read()).total.requests.admitted).toBe(2)
})

test('Recorder gives a flush up that the store might not recognize any more, and says so', async () => {
  const { recorder, context, state, wake, clock, lines, read } = subject()
  state.fails = true
  recorder.onDecided(observed(ADMITTED), context)
  await wake()
  await wake()
  state.fails = false
  clock.now += 60 * MINUTE
  recorder.onDecided(observed(ADMITTED), context)
  await wake()
  expect(lines.at(-1)).toEqual({ level: 'error', event: 'statistics_lost', requests: 1 })
  expect((await read()).total.requests.admitted).toBe(1)
})

test('counts are sent by a later request if the platform has ended the one that was to send them', async () => {
  const { recorder, context, works, clock } = subject()
  recorder.onDecided(observed(ADMITTED), context)
  clock.now += 20_000 + 20_000
  recorder.onDecided(observed(ADMITTED), context)
  expect(works).toHaveLength(2)
  // And if the clock has stepped back.
  clock.now -= 3_600_000
  recorder.onDecided(observed(ADMITTED), context)
  expect(works).toHaveLength(3)
})

test('Recorder reads once a minute the label of a caller that is refused, and waits for it', async () => {
  let requested = 0
  const { clock, recorder, context, wake, read } = subject(async () => (requested++ === 0 ? 'ACME' : undefined))
  const limited: Verdict = {
    ...{ outcome: 'limited', retryAfterMs: toWholeMs(9) },
    ...{ limits: [limit(login, 9)], violated: [limit(login, 9)] },
  }
  recorder.onDecided(observed(ADMITTED), context)
  recorder.onDecided(observed(limited), context)
  await new Promise((resolve) => setTimeout(resolve))
  recorder.onDecided(observed(limited), context)
  expect(requested).toBe(1)
  clock.now += 60_000
  // From now on, its token cannot be verified.
  recorder.onDecided(observed(limited), context)
  await new Promise((resolve) => setTimeout(resolve))
  recorder.onDecided(observed(limited), context)
  expect(requested).toBe(2)
  await wake()
  const { refused } = await read()
  expect(refused.callers).toEqual([
    { policy: 'login', digest: 'of-login', max: 4, min: 4, shared: false, label: 'ACME' },
  ])
})
