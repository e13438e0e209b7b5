import { expect, test, vi } from 'vitest'
import { applyActualCosts } from '../../src/core/engine/apply-actual-costs.ts'
import { DecisionWatch } from '../../src/core/engine/decision-watch.ts'
import { Engine, type EngineOptions, isCharged } from '../../src/core/engine/engine.ts'
import { type LeaseSize, withLeases } from '../../src/core/engine/leases/with-leases.ts'
import { scaleToLocalShare } from '../../src/core/engine/local-share.ts'
import type { StageWatch } from '../../src/core/engine/stages/stage.ts'
import type { Charge, DecisionRequest, LimitState, StoreCharge } from '../../src/core/model/charge.ts'
import type { OnStoreError, PolicyMode } from '../../src/core/model/policy.ts'
import { type Store, StoreError } from '../../src/core/model/store.ts'
import { MAX_TIMER_MS } from '../../src/core/runtime/sleep.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { callContext } from '../support/call-context.ts'
import { createCharge, storeWith, withPolicy } from '../support/charges.ts'

function subject(leases: LeaseSize | undefined) {
  const clock = { now: 1_700_000_000_000 }
  const now = () => clock.now
  const store = new MemoryStore(now)
  const decide = vi.spyOn(store, 'decide')
  const avoided = { refusalCache: 0, leases: 0, permits: 0 }
  const watch: StageWatch = {
    onAvoided: (by) => avoided[by]++,
    onLeased(permits) {
      avoided.permits += permits
    },
  }
  const decider = new Engine({
    ...{ store, now, log: () => {} },
    ...{ storeTimeoutMs: 500, localShare: 1 },
    // Statistics see the same with a function for decisions as without.
    watch: new DecisionWatch({ isRemote: true }, watch),
    leases: leases === undefined ? undefined : withLeases(leases),
  })
  return { clock, decide, decider, avoided }
}

test('Engine counts refusals that were known already', async () => {
  const { decider, decide, avoided } = subject(undefined)
  const charges = [withPolicy(createCharge('sliding-window', [{ limit: 1, windowMs: 60_000 }]))]
  for (let i = 0; i < 5; i++) await decider.decide(charges, callContext())
  expect(decide).toHaveBeenCalledTimes(2)
  expect(avoided).toEqual({ refusalCache: 3, leases: 0, permits: 0 })
})

test('Engine counts permits taken in advance, and those that were used', async () => {
  const { decider, decide, clock, avoided } = subject('auto')
  const charge = createCharge('sliding-window', [{ limit: 10_000, windowMs: 10_000 }])
  const background: Promise<unknown>[] = []
  const context = callContext(background)
  for (let i = 0; i < 400; i++) {
    await decider.decide([withPolicy(charge)], context)
    await Promise.all(background.splice(0))
    clock.now += 5
  }
  expect(avoided.refusalCache).toBe(0)
  expect(avoided.leases).toBeGreaterThan(200)
  expect(avoided.permits).toBeGreaterThanOrEqual(avoided.leases)
  // Whoever spent no permit has made a call.
  expect(400 - avoided.leases).toBeLessThanOrEqual(decide.mock.calls.length)
})

function scaleCharge(charge: Partial<StoreCharge>, share: number): unknown {
  const limits = [
    { limit: 10, windowMs: 1_000 },
    { limit: 1_000, windowMs: 60_000 },
  ]
  const { limits: local, burst, reserved } = scaleToLocalShare(createCharge('sliding-window', limits, charge), share)
  return { limits: local.map(({ limit }) => limit), burst, reserved }
}

test.each([
  ['all of it', {}, 1, { limits: [10, 1_000], burst: undefined, reserved: 0 }],
  ['a part, rounded down', {}, 0.25, { limits: [2, 250], burst: undefined, reserved: 0 }],
  ['room for one request', { cost: 4 }, 0.1, { limits: [4, 100], burst: undefined, reserved: 0 }],
  ['a part of the burst', { burst: 50 }, 0.5, { limits: [5, 500], burst: 25, reserved: 0 }],
  ['a part of what is reserved', { reserved: 8 }, 0.5, { limits: [5, 500], burst: undefined, reserved: 4 }],
  ['room besides what is reserved', { reserved: 9 }, 0.89, { limits: [9, 890], burst: undefined, reserved: 8 }],
])('scaleToLocalShare() allows %s', (_name, charge, share, expected) => {
  expect(scaleCharge(charge, share)).toEqual(expected)
})

test('Engine refuses without the store unless a fallback admits, also for one that it does not know', async () => {
  const { decider, decide } = subject(undefined)
  decide.mockRejectedValue(new StoreError('down'))
  const charge = withPolicy(createCharge('sliding-window', [{ limit: 1, windowMs: 60_000 }]))
  const decideAs = (onStoreError: string) =>
    decider.decide(
      [{ ...charge, policy: { ...charge.policy, onStoreError: onStoreError as OnStoreError } }],
      callContext(),
    )
  expect(await decideAs('open')).toMatchObject({ granted: 1, degraded: 'open' })
  expect(await decideAs('closed')).toMatchObject({ granted: 0, degraded: 'closed' })
  expect(await decideAs('later')).toMatchObject({ granted: 0, degraded: 'closed' })
})

test('MemoryStore charges nothing for an action that it does not know', async () => {
  const store = new MemoryStore(() => 1_700_000_000_000)
  const charges = [createCharge('sliding-window', [{ limit: 1, windowMs: 60_000 }])]
  const request = { action: 'borrow' as DecisionRequest['action'], permits: 1, charges }
  await expect((async () => store.decide(request))()).rejects.toThrow()
  expect(await store.decide({ action: 'take', permits: 1, charges })).toMatchObject({ granted: 1 })
})

const SLOT = withPolicy(createCharge('concurrency', [{ limit: 5, windowMs: 60_000 }], { slot: 1 }))
const WINDOW = withPolicy(createCharge('sliding-window', [{ limit: 5, windowMs: 60_000 }]))
/** It would refuse. */
const FULL_SHADOW = withPolicy(
  createCharge('concurrency', [{ limit: 1, windowMs: 9_000 }], { slot: 2, cost: 2, mode: 'shadow' }),
)

/** An engine over one memory, each of whose decisions takes as long as is said, or fails; and all that it is asked. */
function observed(answers: readonly (number | Error)[] = [], options: Partial<EngineOptions> = {}) {
  const clock = { now: 1_700_000_000_000 }
  const memory = new MemoryStore(() => clock.now)
  const calls: unknown[] = []
  const logged: unknown[] = []
  const store: Store = {
    ...storeWith({
      async decide(request) {
        const answer = answers[calls.filter((call) => Array.isArray(call) && call[0] === 'decide').length] ?? 0
        calls.push(['decide', request.charges.map(({ slot }) => slot)])
        if (answer instanceof Error) throw answer
        const decision = memory.decideNow(request)
        clock.now += answer
        return decision
      },
    }),
    async release(charges) {
      calls.push(['release', charges.map(({ slot }) => slot)])
      await memory.release(charges)
    },
    async revoke(releases) {
      calls.push(['revoke', releases.map(({ charge, isKnown }) => [charge.slot, isKnown])])
    },
    async renew(charges) {
      calls.push(['renew', charges.map(({ slot }) => slot)])
    },
  }
  const engine = new Engine({
    ...{ store, now: () => clock.now, log: (level, entry) => logged.push([level, entry]) },
    ...{ storeTimeoutMs: 500, localShare: 0.5, repeats: 'none', ...options },
  })
  const background: Promise<unknown>[] = []
  return { engine, memory, clock, calls, logged, background, context: callContext(background) }
}

test('Engine gives back a slot that a late decision has taken, and takes another; one that is late again is no answer', async () => {
  const once = observed([501])
  const { granted, charges, degraded } = await once.engine.decide([SLOT, WINDOW], once.context)
  expect([granted, degraded, charges[1]]).toEqual([1, undefined, WINDOW])
  const slot = charges[0]?.slot
  expect(slot).not.toBe(1)
  expect(once.calls).toEqual([
    ['decide', [1, undefined]],
    ['release', [1]],
    ['decide', [slot, undefined]],
  ])
  expect(once.logged).toEqual([['error', { event: 'late_decision', ageMs: 501, repeated: true }]])

  const twice = observed([501, 501])
  expect(await twice.engine.decide([SLOT], twice.context)).toMatchObject({ granted: 1, degraded: 'local' })
  expect(twice.logged.slice(1)).toEqual([
    ['error', { event: 'late_decision', ageMs: 501, repeated: false }],
    ['error', { event: 'store_error', message: 'its decisions come too late', answered: 'local' }],
  ])
  // Both slots were given back, so none is revoked.
  expect(twice.calls.map((call) => (call as unknown[])[0])).toEqual(['decide', 'release', 'decide', 'release'])

  const inTime = observed([500])
  await inTime.engine.decide([SLOT], inTime.context)
  const peek = observed([501])
  await peek.engine.decide([WINDOW], peek.context, { action: 'peek', permits: 1 })
  const refused = observed([501])
  expect(await refused.engine.decide([{ ...WINDOW, cost: 6 }], refused.context)).toMatchObject({ granted: 0 })
  expect([inTime.calls.length, peek.calls.length, refused.calls.length]).toEqual([1, 1, 1])
  expect([inTime.logged, peek.logged, refused.logged]).toEqual([[], [], []])
})

test('Engine revokes the slots of a decision that may have run, and of no other', async () => {
  const revoked = async (error: StoreError, action: 'take' | 'peek', charges: readonly Charge[] = [SLOT, WINDOW]) => {
    const { engine, calls, context, background } = observed([error])
    expect((await engine.decide(charges, context, { action, permits: 1 })).degraded).toBe('local')
    await Promise.all(background)
    return calls.slice(1)
  }
  expect(await revoked(new StoreError('lost'), 'take')).toEqual([['revoke', [[1, false]]]])
  expect(await revoked(new StoreError('lost'), 'peek')).toEqual([])
  expect(await revoked(new StoreError('lost'), 'take', [WINDOW])).toEqual([])
  expect(await revoked(new StoreError('refused', { mayHaveRun: false }), 'take')).toEqual([])
  const { engine, context } = observed([new TypeError('a bug')])
  await expect(engine.decide([WINDOW], context)).rejects.toThrow(TypeError)
})

test('Engine holds the slots that a decision has taken, and renews them three times in their window', async () => {
  const { engine, calls, context } = observed()
  const takeHold = async (charges: readonly Charge[], action: 'take' | 'peek' = 'take') =>
    (await engine.decide(charges, context, { action, permits: 1 })).hold
  const hold = await takeHold([SLOT, WINDOW, FULL_SHADOW])
  expect(hold?.renewEveryMs).toBe(20_000)
  await hold?.renew()
  await hold?.release()
  expect(calls.slice(1)).toEqual([
    ['renew', [1]],
    ['release', [1]],
  ])
  expect(await takeHold([WINDOW])).toBeUndefined()
  expect(await takeHold([SLOT], 'peek')).toBeUndefined()
  expect(await takeHold([{ ...SLOT, cost: 6 }])).toBeUndefined()
  expect(await takeHold([FULL_SHADOW])).toBeUndefined()
  const month = { ...SLOT, limits: [{ limit: 5, windowMs: 300 * 86_400_000, name: 'month' }] }
  expect((await takeHold([month]))?.renewEveryMs).toBe(MAX_TIMER_MS)
})

test('isCharged() tells the charges of a decision that were charged', () => {
  const [free, waits] = [0, 5].map((retryAfterMs) => ({ remaining: 1, resetMs: 9, retryAfterMs }))
  const decision = (granted: number) => ({
    granted,
    nowMs: 1,
    usage: [[free, free], [free, waits], []] as LimitState[][],
  })
  expect([0, 1, 2, 3].map((index) => isCharged(decision(1), index))).toEqual([true, false, false, false])
  expect(isCharged(decision(0), 0)).toBe(false)
})

test.each<[string, readonly (readonly [OnStoreError, PolicyMode])[], string, number]>([
  [
    'all decided here',
    [
      ['local', 'enforce'],
      ['local', 'shadow'],
    ],
    'local',
    1,
  ],
  [
    'some that admit',
    [
      ['local', 'enforce'],
      ['open', 'enforce'],
    ],
    'local, open',
    1,
  ],
  [
    'all that admit',
    [
      ['open', 'enforce'],
      ['open', 'enforce'],
    ],
    'open',
    1,
  ],
  [
    'one that refuses',
    [
      ['local', 'enforce'],
      ['closed', 'enforce'],
    ],
    'closed',
    0,
  ],
  [
    'one that would refuse',
    [
      ['open', 'enforce'],
      ['closed', 'shadow'],
    ],
    'open',
    1,
  ],
])('Engine decides without the store, of %s', async (_name, policies, degraded, granted) => {
  const { engine, memory, context, clock } = observed([new StoreError('down')])
  const charges = policies.map(([onStoreError, mode]) => {
    return withPolicy(createCharge('sliding-window', [{ limit: 4, windowMs: 60_000 }], { mode }), onStoreError)
  })
  const decision = await engine.decide(charges, context)
  expect([decision.granted, decision.degraded, decision.nowMs]).toEqual([granted, degraded, clock.now])
  expect(decision.charges.map(({ limits }) => limits[0]?.limit)).toEqual([2, 2])
  expect(decision.chargedIn).toBe(engine.findStore(true))
  // An admission decides nothing: of what is not decided here, nothing is known.
  expect(decision.usage.map((limits) => limits.length)).toEqual(
    policies.map(([onStoreError]) => (degraded.startsWith('local') && onStoreError === 'local' ? 1 : 0)),
  )
  expect(memory.size).toBe(0)
})

test('Engine records in the fallback what the store does not take, by the share of this isolate', async () => {
  const { engine, logged, context } = observed()
  const recorded: unknown[] = []
  const down = storeWith({ decide: async () => Promise.reject(new StoreError('down')) })
  const fallback = engine.findStore(true)
  vi.spyOn(fallback, 'decide').mockImplementation(async ({ action, permits, charges }) => {
    recorded.push([action, permits, charges.map(({ limits }) => limits[0]?.limit)])
    return { granted: 1, nowMs: 1, usage: [] }
  })
  await engine.record([WINDOW], storeWith({ decide: async () => ({ granted: 1, nowMs: 1, usage: [] }) }), context)
  expect([recorded, logged]).toEqual([[], []])
  await engine.record([WINDOW], down, context)
  expect(recorded).toEqual([['record', 1, [2]]])
  expect(logged).toEqual([['error', { event: 'store_error', message: 'down', answered: 'local' }]])
  const broken = storeWith({ decide: async () => Promise.reject(new TypeError('a bug')) })
  await expect(engine.record([WINDOW], broken, context)).rejects.toThrow(TypeError)
  expect(engine.findStore(false)).not.toBe(fallback)
})

test('Engine opens its circuit once the store fails, unless it has none, and half-opens it once the store answers', async () => {
  const failures = Array.from({ length: 20 }, () => new StoreError('down'))
  const fail = async (options: Partial<EngineOptions>) => {
    const { engine, context } = observed(failures, options)
    expect([engine.circuit, engine.mayCall]).toEqual(['closed', true])
    for (let i = 0; i < 15; i++) await engine.decide([WINDOW], context)
    return engine
  }
  const engine = await fail({})
  expect([engine.circuit, engine.mayCall]).toEqual(['open', false])
  const without = await fail({ hasBreaker: false })
  expect([without.circuit, without.mayCall]).toEqual(['closed', true])
})

test('Engine asks the places of a store, if it has several', async () => {
  const pinged: string[] = []
  const place = (name: string) => ({
    circuit: 'open' as const,
    mayCall: false,
    ping: async () => void pinged.push(name),
  })
  const byName = new Map(['a', 'b'].map((name) => [name, place(name)]))
  const places = { circuit: 'half-open' as const, mayCall: false, byName }
  const store: Store = { ...storeWith({ decide: async () => ({ granted: 1, nowMs: 1, usage: [] }) }), places }
  const { engine } = observed([], { store })
  expect([engine.circuit, engine.mayCall]).toEqual(['half-open', false])
  await engine.ping()
  expect(pinged).toEqual(['a', 'b'])
  const own = vi.fn(async () => {})
  const { engine: single } = observed([], { store: { ...store, places: undefined, ping: own } })
  await single.ping()
  expect(own).toHaveBeenCalledOnce()
})

test('Engine deletes keys in the store and in the fallback', async () => {
  const deleted: unknown[] = []
  const store: Store = {
    ...storeWith({ decide: async () => ({ granted: 1, nowMs: 1, usage: [] }) }),
    delete: async (keys) => void deleted.push(keys),
  }
  const { engine } = observed([], { store })
  const fallback = vi.spyOn(engine.findStore(true), 'delete')
  await engine.delete(['a', 'b'])
  expect(deleted).toEqual([['a', 'b']])
  expect(fallback).toHaveBeenCalledWith(['a', 'b'])
})

test.each<[string, Partial<StoreCharge>, units: number, settled: number, recorded: number]>([
  ['less than was charged', { algorithm: 'quota' }, -2, -2, 0],
  ['less, of a bucket', { algorithm: 'token-bucket' }, -2, -2, 0],
  ['less, of a log, which stays as it is', { algorithm: 'sliding-window' }, -2, 0, 0],
  ['as much', { algorithm: 'quota' }, 0, 0, 0],
  ['more', { algorithm: 'quota' }, 2, 0, 2],
  ['more, of a log', { algorithm: 'sliding-window' }, 2, 0, 2],
  ['more than the largest limit', { algorithm: 'quota', cost: 3 }, 100, 0, 17],
  ['more than a bucket holds', { algorithm: 'token-bucket', burst: 9, cost: 3 }, 100, 0, 6],
  ['as much as the largest limit', { algorithm: 'quota', cost: 20 }, 5, 0, 0],
  ['failures', { algorithm: 'quota', counts: 'failures', cost: 3 }, 100, 0, 20],
  ['no failure', { algorithm: 'quota', counts: 'failures' }, -2, 0, 0],
])('applyActualCosts() corrects a charge that has cost %s', async (_name, overrides, units, settled, recorded) => {
  const limits = [
    { limit: 10, windowMs: 1_000 },
    { limit: 20, windowMs: 60_000 },
  ]
  const charge = createCharge('quota', limits, overrides)
  const calls: unknown[] = []
  const chargedIn = storeWith({
    decide: () => Promise.reject(new Error('no decision')),
    settle: async (...args) => void calls.push(['settle', ...args]),
  })
  const context = callContext()
  const engine = { record: async (...args: unknown[]) => void calls.push(['record', ...args]) } as never
  await applyActualCosts(engine, [{ charge, units }], { nowMs: 7, chargedIn }, context)
  expect(calls).toEqual([
    ...(settled === 0 ? [] : [['settle', [{ charge, units: settled }], 7]]),
    ...(recorded === 0 ? [] : [['record', [{ ...charge, cost: recorded }], chargedIn, context]]),
  ])
})
