import { beforeEach, describe, expect, test } from 'vitest'
import { LimitMachine } from '../../src/core/store/durable-object/limit-machine.ts'
import type { ObjectVote, PreparedCharge } from '../../src/core/store/durable-object/objects.ts'
import { createCharge, EVERY_ALGORITHM } from '../support/charges.ts'
import { MemoryRows, Waiting } from '../support/object-network.ts'

const START_US = 1_700_000_000_000_000
const PATIENCE_MS = 100

let rows: MemoryRows
let machine: LimitMachine
let waiting: Waiting
beforeEach(() => {
  rows = new MemoryRows()
  machine = new LimitMachine(rows)
  waiting = new Waiting(machine)
})

const RULE = createCharge('sliding-window', [{ limit: 2, windowMs: 3_600_000 }])

function prepare(id: number, overrides: Partial<PreparedCharge> = {}): PreparedCharge {
  const shared = { id, siblings: ['sibling'], precedesNewIdentities: false }
  return { action: 'take', permits: 1, charge: RULE, patienceMs: PATIENCE_MS, shared, ...overrides }
}

/** @returns undefined if it waits */
function reserve(id: number, atMs = 0, overrides?: Partial<PreparedCharge>): number | undefined {
  return waiting.reserve(prepare(id, overrides), START_US + atMs * 1000)?.charged
}

function close(id: number, permits: number, atMs = 0): void {
  machine.close({ id, permits }, START_US + atMs * 1000)
}

/** By the number of the decision, what was charged. */
function answers(atMs = 0): (readonly [id: number | undefined, charged: number])[] {
  return votes(atMs).map(({ reservation, vote }) => [reservation.shared?.id, vote.charged])
}

function votes(atMs = 0): readonly { readonly reservation: PreparedCharge; readonly vote: ObjectVote }[] {
  return waiting.answers(START_US + atMs * 1000)
}

/** What is looked at when a decision ends: so many reservations are open, and so many more wait. */
test.each([
  [25, 200],
  [100, 200],
  [400, 50],
  [800, 25],
])('LimitMachine: next to %i open reservations, %i requests wait at most', (open, max) => {
  const charge = { ...RULE, limits: [{ limit: open, windowMs: 3_600_000 }] }
  for (let id = 1; id <= open + 300; id++) reserve(id, 0, { charge })
  expect(waiting.reservations.length).toBe(max)
  expect(waiting.reservations.length * open).toBeLessThanOrEqual(20_000)
})

describe('LimitMachine: a reservation that does not fit', () => {
  test('is refused at once, if what stays charged refuses it', () => {
    for (const id of [1, 2]) {
      expect(reserve(id)).toBe(1)
      close(id, 1)
    }
    expect(reserve(3)).toBe(0)
  })

  test.each(EVERY_ALGORITHM)('waits for what others have reserved, and gets what they give back (%s)', (name) => {
    const charge = createCharge(name, [{ limit: 2, windowMs: 2_000_000_000_000 }])
    const own = (id: number) => ({ charge: { ...charge, slot: id } })
    expect([reserve(1, 0, own(1)), reserve(2, 0, own(2)), reserve(3, 0, own(3))]).toEqual([1, 1, undefined])
    expect(answers()).toEqual([])
    close(1, 0)
    expect(answers()).toEqual([[3, 1]])
  })

  test('is refused as soon as that stays charged', () => {
    for (const id of [1, 2, 3]) reserve(id)
    close(1, 1)
    expect(answers()).toEqual([])
    close(2, 1)
    const [answer] = votes()
    expect(answer?.vote).toMatchObject({ charged: 0, isProvisional: false })
  })

  test('waits no longer than it may', () => {
    for (const id of [1, 2, 3]) reserve(id)
    const vote = machine.reserve(prepare(4), START_US)
    expect(machine.findPatienceMs(prepare(4), vote, new Set())).toBe(PATIENCE_MS / 2)
    expect(answers(PATIENCE_MS / 2 - 1)).toEqual([])
    expect(answers(PATIENCE_MS / 2)).toEqual([[3, 0]])
    expect(answers(PATIENCE_MS / 2)).toEqual([])
  })

  test('waits longer if its number is the lower one: of two that wait for each other, one gives in first', () => {
    for (const id of [2, 3, 1]) reserve(id)
    expect(answers(PATIENCE_MS - 1)).toEqual([])
    expect(answers(PATIENCE_MS)).toEqual([[1, 0]])
  })

  test('does not wait for those of isolates that seem to have died', () => {
    for (const id of [1, 2]) reserve(id)
    expect(reserve(3, PATIENCE_MS)).toBe(0)
  })

  test('does not wait if it may not, or would be refused by no wait', () => {
    for (const id of [1, 2]) reserve(id)
    expect(reserve(3, 0, { patienceMs: 0 })).toBe(0)
    expect(reserve(4, 0, { action: 'peek' })).toBe(0)
    expect(reserve(5, 0, { permits: 3 })).toBe(0)
    expect(reserve(6, 0, { charge: { ...RULE, mode: 'shadow' } })).toBe(0)
  })

  test('leads to a penalty only if no wait could have helped', () => {
    const charge = { ...RULE, penalty: { durationMs: 60_000, after: 1 } }
    const reserveOver = (overrides: Partial<PreparedCharge>) => {
      const { usage, isProvisional } = machine.reserve({ ...prepare(3), charge, ...overrides }, START_US)
      return { penaltyMs: usage[0]?.penaltyMs, isProvisional }
    }
    for (const id of [1, 2]) reserve(id, 0, { charge })
    for (const overrides of [{ patienceMs: 0 }, { action: 'peek' }] as const) {
      expect(reserveOver(overrides)).toEqual({ penaltyMs: undefined, isProvisional: true })
    }
    for (const overrides of [{ permits: 3 }, { action: 'peek' }] as const) {
      expect(reserveOver(overrides)).toEqual({ penaltyMs: 60_000, isProvisional: false })
    }
  })

  test('writes nothing while it waits', () => {
    for (const id of [1, 2]) reserve(id)
    const { written } = rows
    for (const id of [3, 4, 5]) reserve(id)
    expect(rows.written).toBe(written)
  })

  test('charges nothing if it is given up while it waits', () => {
    for (const id of [1, 2, 3]) reserve(id)
    close(3, 0)
    expect(votes()[0]?.vote).toMatchObject({ charged: 0, isVoid: true })
    close(1, 0)
    expect(reserve(4)).toBe(1)
  })

  test('is refused at once in a flood, in which what is given back goes to those who came before', () => {
    for (const id of [1, 2]) reserve(id)
    const seen = Array.from({ length: 40 }, (_, index) => reserve(index + 3))
    expect(seen.slice(0, 16)).toEqual(Array(16).fill(undefined))
    expect(seen.slice(16)).toEqual(Array(24).fill(0))
    close(1, 0)
    expect(answers()).toEqual([[3, 1]])
  })
})

test('LimitMachine: the time is never before that of the last charge, also in an object that has started again', () => {
  const charge = { ...RULE, limits: [{ limit: 1, windowMs: 3_600_000 }] }
  expect(reserve(1, 10_000, { charge })).toBe(1)
  close(1, 1, 10_000)
  for (const started of [machine, new LimitMachine(rows)]) {
    const { nowMs, usage } = started.reserve(prepare(2, { charge }), START_US + 4_000_000)
    expect(nowMs).toBe(START_US / 1_000 + 10_000)
    expect(usage[0]?.retryAfterMs).toBe(3_600_000)
  }
})

test('LimitMachine: siblings are asked about an open charge for half a minute, and it stays charged after that', () => {
  const settleOverdue = (atMs: number) => machine.settleOverdue(START_US + atMs * 1000)
  reserve(1)
  expect(settleOverdue(4_999)).toEqual([])
  for (const atMs of [5_000, 30_000]) expect(settleOverdue(atMs)).toEqual([[1, ['sibling']]])
  expect(settleOverdue(30_001)).toEqual([])
  machine.void(1, START_US + 30_001_000)
  expect(machine.reserve(prepare(2), START_US + 30_001_000).usage[0]?.remaining).toBe(1)
})
