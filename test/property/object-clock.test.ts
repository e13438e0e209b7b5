/** An object whose clock steps, while messages are lost and its isolate comes and goes. */
import fc from 'fast-check'
import { afterEach, expect, test, vi } from 'vitest'
import { LimitMachine } from '../../src/core/store/durable-object/limit-machine.ts'
import { readClock } from '../../src/core/store/durable-object/limit-object.ts'
import type { ObjectCall, ObjectVote, PreparedCharge } from '../../src/core/store/durable-object/objects.ts'
import { anyCharge, LONG, START_MS } from '../support/arbitraries.ts'
import { createCharge, EXACT_ALGORITHMS } from '../support/charges.ts'
import { callLocal, LocalObject } from '../support/local-object.ts'
import { MemoryRows } from '../support/object-network.ts'
import { expectProperty } from '../support/property.ts'

const PATIENCE_MS = 100
const RULE = createCharge('sliding-window', [{ limit: 2, windowMs: 3_600_000 }])
const WIDE = { ...RULE, limits: [{ limit: 1_000, windowMs: 2_000_000_000 }] }

/** Steps by which clocks are set right, or wrong. */
const anyBackMs = fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1_000, max: 900_000 }))

function requested(id: number, sibling: string): PreparedCharge {
  const shared = { id, siblings: [sibling], precedesNewIdentities: false }
  return { action: 'take', permits: 1, charge: RULE, patienceMs: PATIENCE_MS, shared }
}

/** Clocks of two machines are this far apart at most; that of one machine may step back by any time. */
const MOST_APART_MS = 60_000

/** One object, which is woken as it asks for. */
class Clocked {
  readonly rows = new MemoryRows()
  machine = new LimitMachine(this.rows)
  elapsedMs = 0
  backMs = 0

  get nowUs(): number {
    return (START_MS + this.elapsedMs - this.backMs) * 1000
  }

  restart(): void {
    this.machine = new LimitMachine(this.rows)
  }
}

test.each(EXACT_ALGORITHMS)(
  '%s: no window of the time that goes by holds more than its limit, though the clock only shows whole milliseconds',
  async (name) => {
    const anyGapUs = fc.oneof(fc.integer({ min: 0, max: 3_000 }), fc.integer({ min: 0, max: 300_000 }))
    await expectProperty(
      fc.asyncProperty(anyCharge(name), fc.array(anyGapUs, LONG), async (charge, gapsUs) => {
        const machine = new LimitMachine(new MemoryRows())
        const admittedUs: number[] = []
        let elapsedUs = START_MS * 1000
        for (const gapUs of gapsUs) {
          elapsedUs += gapUs
          const shownUs = readClock(Math.floor(elapsedUs / 1000))
          const vote = machine.reserve({ action: 'take', permits: 1, charge }, shownUs)
          if (vote?.charged === 1) admittedUs.push(elapsedUs)
        }
        for (const { limit, windowMs } of charge.limits) {
          admittedUs.forEach((atUs, n) => {
            expect((admittedUs[n + limit] ?? Number.POSITIVE_INFINITY) - atUs).toBeGreaterThanOrEqual(windowMs * 1000)
          })
        }
      }),
      600,
    )
  },
)

test('a charge whose end never came drops nothing that longer windows of later limits hold', () => {
  const machine = new LimitMachine(new MemoryRows())
  const nowUs = START_MS * 1000
  const later = createCharge('sliding-window', [{ limit: 20, windowMs: 60_000 }])
  const brief = { ...later, limits: [{ limit: 10, windowMs: 1_000 }] }
  machine.reserve({ ...requested(1, 'sibling'), charge: brief }, nowUs)
  for (let count = 1; count <= 19; count++) {
    machine.reserve({ action: 'take', permits: 1, charge: later }, nowUs + 2_000_000)
  }
  for (let elapsedMs = 2_500; elapsedMs <= 35_000; elapsedMs += 2_500) machine.settleOverdue(nowUs + elapsedMs * 1000)
  const vote = machine.reserve({ action: 'take-up-to', permits: 20, charge: later }, nowUs + 35_000_000)
  expect(vote?.charged).toBe(0)
})

afterEach(() => vi.useRealTimers())

test('nobody waits at an object for longer than its patience, but for a moment at each step back of its clock', async () => {
  const anyStep = fc.record({
    afterMs: fc.integer({ min: 0, max: 60 }),
    what: fc.oneof(
      fc.record({ kind: fc.constantFrom('ask' as const, 'keep' as const, 'cancel' as const) }),
      fc.record({ kind: fc.constant('back' as const), ms: anyBackMs }),
    ),
  })
  let waited = 0
  vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'] })
  await expectProperty(
    fc.asyncProperty(fc.array(anyStep, { minLength: 20, maxLength: 60, size: 'max' }), async (steps) => {
      vi.setSystemTime(START_MS)
      const object = new LocalObject().open()
      let elapsedMs = 0
      let lastReadMs = 0
      let backMs = 0
      let lostBeforeMs = 0
      /** If the clock steps back between two readings, nobody can tell how much time has gone by between them. */
      const lost = () => lostBeforeMs + Math.min(backMs, elapsedMs - lastReadMs)
      const call = <T>(...sent: ObjectCall) => {
        lostBeforeMs = lost()
        backMs = 0
        lastReadMs = elapsedMs
        return callLocal<T>(object, ...sent)
      }
      /** By the number of the decision: since when, and what had been lost by then. */
      const waiting = new Map<number, readonly [sinceMs: number, lostMs: number]>()
      const open: number[] = []
      const pass = async (ms: number) => {
        for (let i = 0; i < ms; i++) {
          await vi.advanceTimersByTimeAsync(1)
          elapsedMs++
        }
        for (const [sinceMs, lostMs] of waiting.values()) {
          // The timer fires when it is over, and the answer follows.
          expect(elapsedMs - sinceMs).toBeLessThanOrEqual(PATIENCE_MS + 1 + lost() - lostMs)
        }
      }
      let id = 0
      for (const { afterMs, what } of steps) {
        await pass(afterMs)
        switch (what.kind) {
          case 'ask': {
            const own = ++id
            waiting.set(own, [elapsedMs, lost()])
            void call<ObjectVote>('reserve', requested(own, 'sibling')).then(({ charged }) => {
              if (waiting.get(own)?.[0] !== elapsedMs) waited++
              waiting.delete(own)
              if (charged > 0) open.push(own)
            })
            break
          }
          case 'back':
            vi.setSystemTime(Date.now() - what.ms)
            backMs += what.ms
            break
          default: {
            const closed = open.shift()
            if (closed !== undefined) await call('close', { id: closed, permits: what.kind === 'keep' ? 1 : 0 })
          }
        }
        await vi.advanceTimersByTimeAsync(0)
      }
      await pass(2 * PATIENCE_MS)
      expect(waiting.size).toBe(0)
    }),
    400,
  )
  expect(waited).toBeGreaterThan(0)
})

test('who waits at an object gives up in time if the clock steps back after another call', async () => {
  vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'], now: START_MS })
  const object = new LocalObject().open()
  const charged: number[][] = []
  const reserve = async (id: number) => {
    charged.push([id, (await callLocal<ObjectVote>(object, 'reserve', requested(id, 'sibling'))).charged])
  }
  for (const id of [5, 6, 4, 3]) void reserve(id)
  await vi.advanceTimersByTimeAsync(PATIENCE_MS / 2)
  // The first one that waits has it then, and may give it back as well.
  await callLocal(object, 'close', { id: 5, permits: 0 })
  await vi.advanceTimersByTimeAsync(PATIENCE_MS / 4)
  // Others see when the clock steps back, so that no time is lost.
  const look = () => callLocal(object, 'reserve', { ...requested(7, 'sibling'), action: 'peek' })
  await look()
  vi.setSystemTime(Date.now() - 60_000)
  await look()
  await vi.advanceTimersByTimeAsync(PATIENCE_MS / 4 - 1)
  expect(charged).toEqual([5, 6, 4].map((id) => [id, 1]))
  await vi.advanceTimersByTimeAsync(2)
  expect(charged.at(-1)).toEqual([3, 0])
})

test('what both objects granted is never taken back, though they only query each other, late by their clocks', async () => {
  const anyStep = fc.record({
    afterMs: fc.oneof(fc.integer({ min: 0, max: 8_000 }), fc.integer({ min: 0, max: 240_000 })),
    object: fc.nat(1),
    kind: fc.constantFrom('admit' as const, 'admit' as const, 'restart' as const, 'back' as const),
    ms: anyBackMs,
  })
  await expectProperty(
    fc.asyncProperty(
      fc.boolean(),
      fc.array(anyStep, { minLength: 5, maxLength: 40, size: 'max' }),
      async (mayRestart, steps) => {
        const objects = [new Clocked(), new Clocked()] as const
        let admitted = 0
        let id = 0
        const dueMs = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
        const dueUs = [0, 0]
        const setTimers = () => {
          objects.forEach(({ machine, nowUs, elapsedMs }, index) => {
            if (machine.state.open.size === 0 || dueMs[index] !== Number.POSITIVE_INFINITY) return
            dueMs[index] = elapsedMs + 2_500
            dueUs[index] = nowUs + 2_500_000
          })
        }
        const pass = (ms: number) => {
          for (const object of objects) object.elapsedMs = ms
        }
        const passUntil = (ms: number) => {
          for (let next = Math.min(...dueMs); next <= ms; next = Math.min(...dueMs)) {
            pass(next)
            const index = dueMs.indexOf(next)
            const [object, other] = (index === 0 ? objects : objects.toReversed()) as [Clocked, Clocked]
            dueMs[index] = Number.POSITIVE_INFINITY

            object.machine.reach(dueUs[index] ?? 0)
            for (const [id] of object.machine.settleOverdue(object.nowUs)) {
              if (!other.machine.inquire(id, other.nowUs)) object.machine.void(id, object.nowUs)
            }
            setTimers()
          }
          pass(ms)
        }
        for (const { afterMs, object: index, kind, ms } of steps) {
          const object = objects[index] as Clocked
          passUntil(object.elapsedMs + afterMs)
          if (kind === 'back')
            object.backMs = Math.min(object.backMs + ms, mayRestart ? MOST_APART_MS : Number.POSITIVE_INFINITY)
          if (kind === 'restart' && mayRestart) {
            object.restart()
            dueMs[index] = Number.POSITIVE_INFINITY
            // Something is asked of it again.
            object.machine.reserve({ action: 'peek', permits: 1, charge: RULE }, object.nowUs)
          }
          if (kind === 'admit') {
            id++
            for (const one of objects) {
              const vote = one.machine.reserve({ ...requested(id, 'other'), charge: WIDE }, one.nowUs)
              expect(vote?.charged).toBe(1)
            }
            admitted++
          }
          setTimers()
        }
        passUntil((objects[0] as Clocked).elapsedMs + 3_600_000)
        for (const { machine, nowUs } of objects) {
          const vote = machine.reserve({ action: 'peek', permits: 1, charge: WIDE }, nowUs)
          expect(vote?.usage[0]?.remaining).toBe(1_000 - admitted)
        }
      },
    ),
    400,
  )
})
