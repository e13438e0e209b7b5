import fc from 'fast-check'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { StoreCharge } from '../../src/core/model/charge.ts'
import { StoreError } from '../../src/core/model/store.ts'
import { DurableObjectStore } from '../../src/core/store/durable-object/durable-object-store.ts'
import { LimitMachine } from '../../src/core/store/durable-object/limit-machine.ts'
import { Negotiation, type To } from '../../src/core/store/durable-object/negotiation.ts'
import type { CommitOrAbort, ObjectVote, RemoteObjects } from '../../src/core/store/durable-object/objects.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import {
  addPenalties,
  anyCharge,
  anyCounts,
  anyDemands,
  anyPenalties,
  counting,
  demanded,
  forwardUs,
  LONG,
  MOST_RULES,
  START_MS,
} from '../support/arbitraries.ts'
import { callContext } from '../support/call-context.ts'
import { createCharge, EVERY_ALGORITHM, EXACT_ALGORITHMS, take } from '../support/charges.ts'
import { MemoryRows, ObjectNetwork, ObjectScript } from '../support/object-network.ts'
import { expectProperty } from '../support/property.ts'

const MIXED: fc.Arbitrary<StoreCharge[]> = fc.array(fc.constantFrom(...EVERY_ALGORITHM).chain(anyCharge), {
  minLength: 2,
  maxLength: MOST_RULES,
})
const SUBJECTS: readonly (readonly [string, fc.Arbitrary<StoreCharge[]>])[] = [
  ...EVERY_ALGORITHM.map((name) => [name, anyCharge(name, true).map((charge) => [charge])] as const),
  ['several algorithms in one decision', MIXED],
]

describe.each(SUBJECTS)('%s', (_name, charges) => {
  test('objects decide as one store in memory does, however often they restart', async () => {
    const action = fc.record({
      gapUs: forwardUs.map((us) => us - (us % 1000)),
      action: fc.constantFrom('take', 'take', 'take-up-to', 'peek', 'record'),
      permits: fc.integer({ min: 1, max: 5 }),
      leaseMs: fc.constantFrom(0, 0, 0, 40),
      demands: anyDemands,
      counts: anyCounts,
      penalties: anyPenalties,
    })
    await expectProperty(
      fc.asyncProperty(charges, fc.array(action, LONG), async (charges, actions) => {
        let nowUs = Math.ceil(START_MS) * 1000
        const objects = new ObjectScript(3, true)
        const implementation = new MemoryStore(() => nowUs / 1000)
        const configured = charges.map((charge) => ({ before: charge, after: charge }))
        for (const { gapUs, action, permits, leaseMs, demands, counts, penalties } of actions) {
          nowUs += gapUs
          const requested = counting(demanded(configured, demands), counts)
          // Of several, one may hold what others have reserved, as far as it knows: it then refuses nobody for it.
          const request = take(charges.length > 1 ? requested : addPenalties(requested, penalties), {
            action,
            permits,
            leaseMs,
          })
          // What had not been told to be kept before a restart may still be given back, as far as an object knows.
          const { isProvisional: _, ...decision } = await objects.decide(request, nowUs)
          expect(decision).toEqual(await implementation.decide(request))
        }
      }),
      60,
    )
  })
})

/** Two charges of one decision, of which the second refuses from the third permit on. */
function withAnother(charge: StoreCharge): StoreCharge[] {
  return [charge, createCharge('quota', [{ limit: 2, windowMs: 3_600_000 }])]
}

test.each(EXACT_ALGORITHMS)(
  '%s: a request with short windows that is refused discards nothing that longer ones count',
  async (name) => {
    const objects = new ObjectScript()
    const [long, other] = withAnother(createCharge(name, [{ limit: 2, windowMs: 3_000 }])) as [StoreCharge, StoreCharge]
    const short = { ...long, limits: [{ limit: 2, windowMs: 10 }] }
    const atUs = (ms: number) => (START_MS + ms) * 1000
    expect((await objects.decide(take([long]), atUs(0))).granted).toBe(1)
    expect((await objects.decide(take([short, other], { permits: 3 }), atUs(100))).granted).toBe(0)
    expect((await objects.decide(take([short, { ...other, cost: 3 }], { permits: 1 }), atUs(100))).granted).toBe(0)
    const { usage } = await objects.peek(take([long]), atUs(200))
    expect(usage).toEqual([[{ remaining: 1, resetMs: 2_800, retryAfterMs: 0 }]])
  },
)

test.each(EXACT_ALGORITHMS)(
  '%s: what has left the windows stays away after a restart, also if they grow',
  async (name) => {
    // A log is trimmed when its total passes eight.
    const short = createCharge(name, [{ limit: 8, windowMs: 10 }], { cost: 4 })
    const long = { ...short, limits: [{ limit: 8, windowMs: 3_000 }] }
    const objects = new ObjectScript(1)
    for (const ms of [0, 100]) await objects.decide(take([short]), (START_MS + ms) * 1000)
    expect((await objects.decide(take([long]), (START_MS + 200) * 1000)).granted).toBe(1)
  },
)

test('token-bucket: of a lease that is granted in part, what refills meanwhile is reported as given up', async () => {
  const bucket = createCharge('token-bucket', [{ limit: 10, windowMs: 100 }], { mode: 'shadow' })
  const objects = new ObjectScript()
  const request = take(withAnother(bucket), { action: 'take-up-to', permits: 10, leaseMs: 50 })
  const { granted, usage } = await objects.decide(request, START_MS * 1000)
  // Five units would refill in the term of the lease.
  expect([granted, usage[0]?.[0]?.remaining]).toEqual([2, 3])
})

test('a decision that is given up leaves nothing, whatever of its ends has arrived, and one that stays leaves nothing open', async () => {
  const anyUse = fc.array(fc.integer({ min: 0, max: 30 }), { minLength: MOST_RULES, maxLength: MOST_RULES })
  const anyArrivals = fc.array(fc.integer({ min: 0, max: 2 }), { minLength: MOST_RULES, maxLength: MOST_RULES })
  const request = fc.record({
    action: fc.constantFrom('take', 'take-up-to', 'take-up-to'),
    permits: fc.integer({ min: 1, max: 20 }),
  })
  await expectProperty(
    fc.asyncProperty(
      MIXED,
      request,
      anyUse,
      anyArrivals,
      fc.boolean(),
      async (charges, requested, used, arrivals, isGivenUp) => {
        const nowUs = Math.ceil(START_MS) * 1000
        const machines = charges.map(() => new LimitMachine(new MemoryRows()))
        const peek = () => machines.map((machine, index) => readUsage(machine, charges[index] as StoreCharge, nowUs))
        const close = ({ index, message }: To<CommitOrAbort>) => machines[index]?.close(message, nowUs)
        const own = charges.map((charge, slot) => ({ ...charge, slot }))
        machines.forEach((machine, index) => {
          const charge = { ...(own[index] as StoreCharge), slot: 100 }
          machine.reserve({ action: 'take-up-to', permits: used[index] || 1, charge }, nowUs)
        })
        const before = peek()
        const negotiation = new Negotiation({ ...requested, charges: own }, 1, 0)
        for (const { index, message } of negotiation.prepareFirst()) {
          negotiation.addVote(index, machines[index]?.reserve(message, nowUs) as ObjectVote)
        }
        const { decision, awaited, kept } = negotiation.conclude()
        // A cancel is whole: no other end follows.
        for (const { message } of awaited) expect(message.isPartial && message.permits === 0).not.toBe(true)
        // Each may be lost, or come twice.
        if (isGivenUp)
          awaited.forEach((closing, n) => {
            for (let i = arrivals[n] ?? 0; i > 0; i--) close(closing)
          })
        else for (const closing of awaited) close(closing)
        for (const closing of isGivenUp ? negotiation.cancel() : kept) close(closing)
        expect(machines.map(({ state }) => state.open.size)).toEqual(charges.map(() => 0))
        if (isGivenUp) expect(peek()).toEqual(before)
        else {
          const left = peek().map((usage) => usage?.map(({ remaining }) => remaining))
          expect(left).toEqual(decision.usage.map((usage) => usage.map(({ remaining }) => remaining)))
        }
      },
    ),
    600,
  )
})

/** The objects of some charges, asked by one store. Counts what is sent to each, as `reserve <key>` or `close <key>`. */
class Watched {
  readonly network: ObjectNetwork
  readonly sent = new Map<string, number>()
  readonly background: Promise<unknown>[] = []
  answered = 0
  readonly #charges: readonly StoreCharge[]

  /**
   * @param used units that each object has charged already
   * @param mostOpen reservations that each has open at most
   */
  constructor(charges: readonly StoreCharge[], used: readonly number[], mostOpen?: number) {
    this.#charges = charges
    this.network = new ObjectNetwork(mostOpen)
    this.network.nowUs = Math.ceil(START_MS) * 1000
    charges.forEach((charge, index) => {
      const reservation = { action: 'take-up-to', permits: used[index] || 1, charge: { ...charge, slot: 1 } } as const
      this.network.machine(charge.key).reserve(reservation, this.network.nowUs)
    })
  }

  get usage(): unknown {
    return this.#charges.map((charge) => readUsage(this.network.machine(charge.key), charge, this.network.nowUs))
  }

  /** @param onAnswer is called whenever one has come */
  store(timeoutMs: number, onAnswer = () => {}): DurableObjectStore {
    const count = async <T>(kind: string, key: string, call: Promise<T>): Promise<T> => {
      this.sent.set(`${kind} ${key}`, (this.sent.get(`${kind} ${key}`) ?? 0) + 1)
      const answer = await call
      this.answered++
      onAnswer()
      return answer
    }
    const objects: RemoteObjects = {
      reserve: (key, reservation) => count('reserve', key, this.network.reserve(key, reservation)),
      close: (key, closing) => count('close', key, this.network.close(key, closing)),
      inquire: (key, id) => this.network.inquire(key, id),
      correct: (key, corrections) => this.network.correct(key, corrections),
    }
    return new DurableObjectStore({ objects, timeoutMs })
  }
}

const ANSWERED = fc.array(
  fc.constantFrom(...EVERY_ALGORITHM.filter((name) => name !== 'concurrency')).chain(anyCharge),
  {
    minLength: 2,
    maxLength: MOST_RULES,
  },
)

test('a request whose client has gone is not decided, or given back in one message to each object', async () => {
  const request = fc.record({ action: fc.constantFrom('take', 'take-up-to'), permits: fc.integer({ min: 1, max: 20 }) })
  const anyUse = fc.array(fc.integer({ min: 0, max: 30 }), { minLength: MOST_RULES, maxLength: MOST_RULES })
  await expectProperty(
    fc.asyncProperty(ANSWERED, request, anyUse, fc.nat(2 * MOST_RULES), async (charges, requested, used, goesAfter) => {
      const objects = new Watched(charges, used)
      const { usage: before, background, sent } = objects
      const context = { ...callContext(background), isClientGone: () => objects.answered >= goesAfter }
      let isDecided = false
      void objects
        .store(60_000)
        .decide(take(charges, requested), context)
        .then(() => {
          isDecided = true
        })
      for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate)
      await Promise.all(background)
      if (goesAfter === 0) expect(sent.size).toBe(0)
      if (goesAfter <= charges.length) expect(isDecided).toBe(false)
      if (isDecided) return
      expect(objects.usage).toEqual(before)
      // What is closed in part is closed twice.
      if (requested.action === 'take' || goesAfter <= charges.length)
        expect([...sent.values()].every((count) => count === 1)).toBe(true)
    }),
    600,
  )
})

test.each([1, 3])('a decision of %i objects that comes too late is given up, and not repeated', async (count) => {
  vi.useFakeTimers({ toFake: ['Date'] })
  onTestFinished(() => void vi.useRealTimers())
  const charges = Array.from({ length: count }, () => createCharge('quota', [{ limit: 10, windowMs: 3_600_000 }]))
  const objects = new Watched(charges, [])
  // Everything stands still, the timer too, until all have answered.
  const store = objects.store(500, () => vi.setSystemTime(Date.now() + 501))
  await expect(store.decide(take(charges), callContext(objects.background))).rejects.toThrow(StoreError)
  await Promise.allSettled(objects.background)
  expect([...objects.sent.values()].every((sent) => sent === 1)).toBe(true)
  const left = (objects.usage as ObjectVote['usage'][]).map((usage) => usage[0]?.remaining)
  // What is charged by one object alone cannot be taken back.
  expect(left).toEqual(charges.map(() => (count === 1 ? 8 : 9)))
})

test('a decision that finds an object full of reservations is undecided, and leaves nothing', async () => {
  const charges = ['a', 'b'].map((name) =>
    createCharge('quota', [{ limit: 10, windowMs: 3_600_000 }], { key: `full:${name}` }),
  )
  const objects = new Watched(charges, [], 2)
  const first = objects.network.machine((charges[0] as StoreCharge).key)
  for (const id of [1, 2]) {
    const shared = { id, siblings: [], precedesNewIdentities: false }
    first.reserve({ action: 'take', permits: 1, charge: charges[0] as StoreCharge, shared }, objects.network.nowUs)
  }
  const { usage: before } = objects
  const decide = () => objects.store(60_000).decide(take(charges), callContext(objects.background))
  await expect(decide()).rejects.toThrow(StoreError)
  await Promise.all(objects.background)
  expect(objects.usage).toEqual(before)
  first.close({ id: 1, permits: 0 }, objects.network.nowUs)
  expect((await decide()).granted).toBe(1)
})

test('a charge whose decider is gone expires if its identity was new, and otherwise stays', async () => {
  const anyTimes = fc.record({
    wasKnown: fc.boolean(),
    permits: fc.integer({ min: 1, max: 20 }),
    cost: fc.integer({ min: 1, max: 3 }),
    looksAtMs: fc.uniqueArray(fc.integer({ min: 1, max: 39_999 }), { maxLength: 12 }),
    restarts: fc.boolean(),
  })
  await expectProperty(
    fc.asyncProperty(anyTimes, async ({ wasKnown, permits, cost, looksAtMs, restarts }) => {
      const startUs = Math.ceil(START_MS) * 1000
      const charge = createCharge('sliding-window', [{ limit: 100, windowMs: 3_600_000 }], { cost })
      const rows = new MemoryRows()
      let machine = new LimitMachine(rows)
      if (wasKnown) machine.reserve({ action: 'take', permits: 1, charge }, startUs)
      const shared = { id: 1, siblings: [], precedesNewIdentities: true }
      expect(machine.reserve({ action: 'take', permits, charge, shared }, startUs).isNew).toBe(!wasKnown)
      for (const ms of [...looksAtMs.toSorted((a, b) => a - b), 40_000]) {
        if (restarts) machine = new LimitMachine(rows)
        expect(machine.settleOverdue(startUs + ms * 1000)).toEqual([])
      }
      const { usage, isNew } = machine.reserve({ action: 'peek', permits: 1, charge }, startUs + 40_000_000)
      expect([isNew, usage[0]?.remaining]).toEqual([!wasKnown, wasKnown ? 100 - (1 + permits) * cost : 100])
      expect(machine.inquire(1, startUs + 40_000_000)).toBe(wasKnown)
    }),
    400,
  )
})

function readUsage(machine: LimitMachine, charge: StoreCharge, nowUs: number): ObjectVote['usage'] | undefined {
  return machine.reserve({ action: 'peek', permits: 1, charge }, nowUs)?.usage
}

/** One object that is asked for reservations in any order, and told their ends in any other. */
class Contended {
  readonly #rows = new MemoryRows()
  readonly #open = new Map<number, number>()
  readonly #charge: StoreCharge
  readonly #mostOpen: number | undefined
  #machine: LimitMachine
  #id = 0
  #elapsedMs = 0
  /** Units that are to stay. */
  kept = 0

  /** @param mostOpen reservations at most */
  constructor(charge: StoreCharge, mostOpen?: number) {
    this.#charge = charge
    this.#mostOpen = mostOpen
    this.#machine = new LimitMachine(this.#rows, undefined, mostOpen)
  }

  get nowUs(): number {
    return (Math.ceil(START_MS) + this.#elapsedMs) * 1000
  }

  get openIds(): readonly number[] {
    return [...this.#open.keys()]
  }

  pass(ms: number): void {
    this.#elapsedMs += ms
  }

  /** @returns permits that it has charged */
  reserve(permits: number, cost: number, isShared: boolean, { action = 'take', leaseMs = 0 } = {}): number {
    const id = ++this.#id
    const shared = { id, siblings: ['sibling'], precedesNewIdentities: false }
    const charge = { ...this.#charge, cost, slot: id }
    const requested = {
      action: action as 'take',
      permits,
      charge,
      ...(leaseMs > 0 && { leaseMs }),
      ...(isShared && { shared }),
    }
    const vote = this.#machine.reserve(requested, this.nowUs)
    const charged = vote?.charged ?? 0
    if (charged > 0 && isShared) this.#open.set(id, charged)
    else this.kept += charged * cost
    return charged
  }

  /** @param isKept what share of the permits stays: all, half or none */
  close(id: number, share: number, cost: number): void {
    const permits = Math.floor((this.#open.get(id) ?? 0) * share)
    this.#machine.close({ id, permits }, this.nowUs)
    this.#open.delete(id)
    this.kept += permits * cost
  }

  restart(): void {
    this.#machine = new LimitMachine(this.#rows, undefined, this.#mostOpen)
  }

  get usage(): ObjectVote['usage'] | undefined {
    return readUsage(this.#machine, this.#charge, this.nowUs)
  }
}

/** So few that some find no room. */
const FEW_OPEN = 8

const anyReservation = fc.record({
  afterMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 40 })),
  kind: fc.constantFrom('reserve', 'reserve', 'close', 'charge', 'restart'),
  permits: fc.integer({ min: 1, max: 4 }),
  which: fc.nat(),
  share: fc.constantFrom(0, 0, 0.5, 1),
  leaseMs: fc.constantFrom(0, 0, 0, 30),
})
const anyReservations = fc.array(anyReservation, { minLength: 20, maxLength: 150, size: 'max' })

describe.each(EVERY_ALGORITHM)('%s, of which charges are taken back', (name) => {
  test('exactly what is kept stays charged, however much is reserved at once and whatever ends first', async () => {
    // No window ends meanwhile, and less than a unit is refilled.
    const charge = createCharge(name, [{ limit: 600, windowMs: 30 * 86_400_000 }])
    await expectProperty(
      fc.asyncProperty(anyReservations, fc.integer({ min: 1, max: 3 }), async (steps, cost) => {
        const object = new Contended(charge, FEW_OPEN)
        for (const { afterMs, kind, permits, which, share } of steps) {
          object.pass(afterMs)
          const { openIds } = object
          if (kind === 'restart') object.restart()
          else if (kind !== 'close') object.reserve(permits, cost, kind === 'reserve')
          else if (openIds.length > 0) object.close(openIds[which % openIds.length] as number, share, cost)
        }
        for (const id of object.openIds) object.close(id, 0, cost)
        expect(object.usage?.[0]?.remaining).toBe(600 - object.kept)
      }),
      60,
    )
  })

  test.each([4, 65, 128, 500])('%i reservations that are given up leave nothing', (count) => {
    for (const isOldestFirst of [true, false]) {
      const object = new Contended(createCharge(name, [{ limit: 600, windowMs: 3_600_000 }], { cost: 1 }))
      const before = object.usage
      for (let n = 0; n < count; n++) {
        object.pass(1)
        object.reserve(1, 1, true)
      }
      for (const id of isOldestFirst ? object.openIds : object.openIds.toReversed()) object.close(id, 0, 1)
      expect(object.usage?.[0]?.remaining).toBe(600)
      // The window of the clock has gone on.
      if (name !== 'fixed-window') expect(object.usage).toEqual(before)
    }
  })
})

/** A quota's window begins with the next charge if the first is taken back before the window ends: none ends meanwhile. */
const anyLongQuota = fc
  .record({ short: fc.integer({ min: 1, max: 10 }), long: fc.integer({ min: 10, max: 30 }) })
  .map(({ short, long }) =>
    createCharge('quota', [
      { limit: short, windowMs: 10_000 },
      { limit: long, windowMs: 3_600_000 },
    ]),
  )

describe.each(EVERY_ALGORITHM)('%s, of which charges are taken back', (name) => {
  const anyOwnCharge = name === 'quota' ? anyLongQuota : anyCharge(name)

  /** Takes back all that one object has reserved, beside another that is only charged what stays. */
  function play(
    charge: StoreCharge,
    steps: readonly (typeof anyReservation extends fc.Arbitrary<infer S> ? S : never)[],
    action: 'take' | 'record',
  ) {
    const [object, other] = [new Contended(charge, FEW_OPEN), new Contended(charge)]
    for (const { afterMs, kind, permits, which, leaseMs } of steps) {
      for (const one of [object, other]) one.pass(afterMs)
      const { openIds } = object
      const lease = { leaseMs: action === 'record' ? leaseMs : 0 }
      if (kind === 'restart') object.restart()
      else if (kind === 'close') {
        if (openIds.length > 0) object.close(openIds[which % openIds.length] as number, 0, 1)
      } else if (object.reserve(permits, 1, kind === 'reserve', lease) > 0 && kind === 'charge') {
        expect(other.reserve(permits, 1, false, { ...lease, action })).toBe(permits)
      }
    }
    for (const id of object.openIds) object.close(id, 0, 1)
    return [object, other].map(({ usage }) => usage) as [ObjectVote['usage'], ObjectVote['usage']]
  }

  test('what is taken back leaves nothing, in any window and at any rate', async () => {
    await expectProperty(
      fc.asyncProperty(anyOwnCharge, anyReservations, async (charge, steps) => {
        const [usage, other] = play(charge, steps, 'take')
        expect(usage).toEqual(other)
      }),
      60,
    )
  })

  test('what is taken back gives no more than it took, also of leases', async () => {
    await expectProperty(
      fc.asyncProperty(anyOwnCharge, anyReservations, async (charge, steps) => {
        const [left, other] = play(charge, steps, 'record').map(([limit]) => limit?.remaining ?? 0) as [number, number]
        // What a lease gives up is rounded to units, of the lack that it finds.
        expect(left).toBeLessThanOrEqual(other + (name === 'token-bucket' ? 1 : 0))
      }),
      200,
    )
  })
})
