/** Histories of concurrent calls, with faults, are linearizable by the sequential algorithm. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Engine } from '../../src/core/engine/engine.ts'
import type { DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import type { Store } from '../../src/core/model/store.ts'
import { sleep } from '../../src/core/runtime/sleep.ts'
import { DurableObjectStore } from '../../src/core/store/durable-object/durable-object-store.ts'
import { LimitMachine } from '../../src/core/store/durable-object/limit-machine.ts'
import type { ObjectVote, PreparedCharge } from '../../src/core/store/durable-object/objects.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { LUA } from '../../src/core/store/redis/more-lua.ts'
import { RedisStore } from '../../src/core/store/redis/redis-store.ts'
import { adaptNodeRedis } from '../../src/core/store/redis/tcp-clients.ts'
import { anyPenalty } from '../support/arbitraries.ts'
import { callContext } from '../support/call-context.ts'
import { createCharge, EVERY_ALGORITHM, storeWith, withPolicy } from '../support/charges.ts'
import { checkHistory, type Verdict } from '../support/linearizability.ts'
import { MemoryRows, ObjectNetwork } from '../support/object-network.ts'
import { shareRedis } from '../support/own-redis.ts'
import { expectProperty } from '../support/property.ts'
import { type Call, type Delivery, recordCalls, splitByKeys, timeCalls } from '../support/recorded-store.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

/** Slots are left out: the answer to a release tells no time. */
const ALGORITHMS = EVERY_ALGORITHM.filter((name) => name !== 'concurrency')
/** The engine repeats a decision that takes longer. */
const PATIENCE_MS = 12
const HOUR_MS = 3_600_000

interface Step {
  /** After the one before. */
  readonly afterMs: number
  /** Which charges it is about: one of two, or both if the store decides them in one step. */
  readonly about: 'first' | 'second' | 'both'
  readonly action: DecisionRequest['action']
  readonly permits: number
  readonly cost: number
  /** The place where the store runs ends before it, and starts again. */
  readonly crashes: boolean
}

interface Script {
  readonly charges: readonly StoreCharge[]
  readonly steps: readonly Step[]
  /** Of the calls, in their order. */
  readonly deliveries: readonly Delivery[]
}

const anyStep: fc.Arbitrary<Step> = fc.record({
  afterMs: fc.integer({ min: 0, max: 4 }),
  about: fc.constantFrom('first', 'first', 'second', 'both'),
  action: fc.constantFrom('take', 'take', 'take', 'take-up-to', 'peek'),
  permits: fc.integer({ min: 1, max: 3 }),
  cost: fc.integer({ min: 1, max: 2 }),
  crashes: fc.integer({ min: 0, max: 9 }).map((die) => die === 0),
})

const MAX_CALLS = 40

/** @param maxLost calls without an answer: each may have been decided at any later time */
function anyScript(limits: fc.Arbitrary<number>, windowsMs: fc.Arbitrary<number>, maxLost: number) {
  const anyCharge = fc
    .tuple(fc.constantFrom(...ALGORITHMS), limits, windowsMs, fc.option(anyPenalty, { nil: undefined }))
    .map(([algorithm, limit, windowMs, penalty]) =>
      createCharge(algorithm, [{ limit, windowMs }], penalty ? { penalty } : {}),
    )
  const anyWayMs = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 9 }))
  const anyWay = fc.record({ toMs: anyWayMs, backMs: anyWayMs })
  const anyLoss = fc.tuple(fc.nat(MAX_CALLS / 2), fc.constantFrom('call' as const, 'answer' as const))
  const deliveries = fc
    .tuple(fc.array(anyWay, { minLength: MAX_CALLS, maxLength: MAX_CALLS }), fc.array(anyLoss, { maxLength: maxLost }))
    .map(([ways, losses]) => {
      const lost = new Map(losses)
      return ways.map((way, index): Delivery => ({ ...way, loses: lost.get(index) }))
    })
  return fc.record<Script>({
    charges: fc.array(anyCharge, { minLength: 2, maxLength: 2 }),
    steps: fc.array(anyStep, { minLength: 2, maxLength: 30, size: 'max' }),
    deliveries,
  })
}

/** Windows end while a history lasts, or not. */
const anyFaultyScript = anyScript(fc.integer({ min: 6, max: 12 }), fc.constantFrom(20, 60, HOUR_MS), 4)
/** Every charge that is lost or added shows. */
const anyTellingScript = anyScript(fc.constant(1_000), fc.constant(HOUR_MS), 0)

interface Place {
  readonly store: Store
  readonly crash?: () => void
  /** Whether a decision over several keys is one step. */
  readonly isWhole: boolean
}

interface Time {
  now(): number
  sleep(ms: number): Promise<unknown>
  finish<T>(work: Promise<T>): Promise<T>
}

const REAL_TIME: Time = {
  now: () => performance.timeOrigin + performance.now(),
  sleep,
  finish: (work) => work,
}

/** Carries the steps out through the engine, each when its time has come, and records the calls to the store. */
async function record({ store, crash, isWhole }: Place, script: Script, time: Time): Promise<readonly Call[]> {
  let drawn = 0
  const draw = () => script.deliveries[drawn++ % script.deliveries.length] as Delivery
  const now = () => time.now()
  const recorded = recordCalls(store, { now, sleep: (ms) => time.sleep(ms), draw })
  const terms = { storeTimeoutMs: PATIENCE_MS, localShare: 1, repeats: 'none', hasBreaker: false } as const
  const engine = new Engine({ store: recorded.store, now, log: () => {}, ...terms })
  const work: Promise<unknown>[] = []
  const run = async () => {
    for (const { afterMs, about, action, permits, cost, crashes } of script.steps) {
      await time.sleep(afterMs)
      if (crashes) crash?.()
      const [first, second] = script.charges as [StoreCharge, StoreCharge]
      const charges = about === 'both' && isWhole ? [first, second] : [about === 'second' ? second : first]
      const own = charges.map((charge) => withPolicy({ ...charge, cost }))
      work.push(engine.decide(own, callContext(), { action: action as 'take', permits }))
    }
    await Promise.all(work)
  }
  await time.finish(run())
  return recorded.calls
}

function check(calls: readonly Call[]): Verdict[] {
  return splitByKeys(calls).map((own) => checkHistory(own))
}

function expectLinearizable(calls: readonly Call[]): void {
  expect(check(calls).filter(({ kind }) => kind !== 'linearizable')).toEqual([])
}

class ClockedNetwork extends ObjectNetwork {
  readonly #clock: VirtualClock

  constructor(clock: VirtualClock) {
    super()
    this.#clock = clock
  }

  override reserve(key: string, reservation: PreparedCharge): Promise<ObjectVote> {
    this.nowUs = this.#clock.now() * 1000 + 999
    return super.reserve(key, reservation)
  }
}

const openMemory = (clock: VirtualClock): Place => {
  return { store: new MemoryStore(() => clock.now() + 0.999), isWhole: true }
}

const openObjects = (clock: VirtualClock): Place => {
  const objects = new ClockedNetwork(clock)
  const store = new DurableObjectStore({ objects, timeoutMs: 60_000 })
  return { store, crash: () => objects.restart(true), isWhole: false }
}

describe.each([
  ['memory', openMemory],
  ['Durable Objects that crash', openObjects],
] as const)('%s', (_name, open) => {
  test('whatever is late, lost or repeated, the calls to a store have one order', async () => {
    let unanswered = 0
    await expectProperty(
      fc.asyncProperty(anyFaultyScript, async (script) => {
        const clock = new VirtualClock()
        const calls = await record(open(clock), script, clock)
        unanswered += calls.filter(({ decision }) => !decision).length
        expectLinearizable(calls)
      }),
      2_000,
    )
    expect(unanswered).toBeGreaterThan(20)
  })
})

const redis = shareRedis()

test('Redis: whatever is late, lost or repeated, the calls have one order, and an answer that is lost is one charge', async () => {
  let [scripts, unanswered] = [0, 0]
  await expectProperty(
    fc.asyncProperty(anyFaultyScript, async ({ charges, ...script }) => {
      const client = timeCalls(adaptNodeRedis(redis), () => scripts++ % 6 === 5)
      const store = new RedisStore({ client, algorithms: ALGORITHMS, moreLua: LUA, timeoutMs: 60_000 })
      // A case that is made smaller runs on the same Redis.
      const own = charges.map((charge) => ({ ...charge, key: `test:histories:{${crypto.randomUUID()}}` }))
      const calls = await record({ store, isWhole: true }, { ...script, charges: own }, REAL_TIME)
      unanswered += calls.filter(({ decision }) => !decision).length
      expectLinearizable(calls)
    }),
    400,
  )
  expect(unanswered).toBeGreaterThan(10)
})

/** A store that does something wrong with the first decision from this one on that charges. */
type OpenWrong = (clock: VirtualClock, wrongFrom: number) => { readonly store: Store; wasWrong(): boolean }

const openDoubleCharger: OpenWrong = (clock, wrongFrom) => {
  const { store } = openMemory(clock)
  let [decided, isDone] = [0, false]
  const decide: Store['decide'] = async (request) => {
    const decision = await store.decide(request)
    if (++decided < wrongFrom || isDone || decision.granted === 0 || request.action === 'peek') return decision
    isDone = true
    await store.decide({ ...request, permits: decision.granted })
    return decision
  }
  return { store: storeWith({ decide }), wasWrong: () => isDone }
}

const openForgetfulObjects: OpenWrong = (clock, wrongFrom) => {
  let [decided, isDone] = [0, false]
  const machines = new Map<string, LimitMachine>()
  const rows = new Map<string, MemoryRows>()
  class Forgetful extends ObjectNetwork {
    override async reserve(key: string, reservation: PreparedCharge): Promise<ObjectVote> {
      const own = rows.get(key) ?? new MemoryRows()
      const before = own.list()
      const machine = machines.get(key) ?? new LimitMachine(own)
      const vote = machine.reserve(structuredClone(reservation), clock.now() * 1000 + 999)
      isDone ||= ++decided >= wrongFrom && vote.charged > 0
      const isLost = isDone && !machines.has('lost')
      if (isLost) machines.set('lost', machine).delete(key)
      else machines.set(key, machine)
      rows.set(key, isLost ? new MemoryRows(before) : own)
      return vote
    }
  }
  return { store: new DurableObjectStore({ objects: new Forgetful(), timeoutMs: 60_000 }), wasWrong: () => isDone }
}

describe.each([
  ['charges one decision twice', openDoubleCharger, true],
  ['has lost its last write after a crash', openForgetfulObjects, false],
] as const)('a store that %s', (_name, open, isWhole) => {
  test('is found out', async () => {
    let found = 0
    await expectProperty(
      fc.asyncProperty(anyTellingScript, fc.integer({ min: 1, max: 12 }), async (script, wrongFrom) => {
        const clock = new VirtualClock()
        const { store, wasWrong } = open(clock, wrongFrom)
        const last = { afterMs: 100, action: 'peek', permits: 1, cost: 1, crashes: false } as const
        const looks = (['first', 'second'] as const).map((about) => ({ ...last, about }))
        const steps = [...script.steps, ...looks]
        const verdicts = check(await record({ store, isWhole }, { ...script, steps }, clock))
        expect(verdicts.some(({ kind }) => kind === 'violated')).toBe(wasWrong())
        if (wasWrong()) found++
      }),
      1_000,
    )
    expect(found).toBeGreaterThan(20)
  })
})
