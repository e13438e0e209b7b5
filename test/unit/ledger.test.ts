import { expect, test } from 'vitest'
import { Ledger } from '../../src/core/store/durable-object/ledger.ts'
import type { Open } from '../../src/core/store/durable-object/machine-state.ts'
import { loadState } from '../../src/core/store/durable-object/stored-state.ts'
import { createCharge } from '../support/charges.ts'
import { MemoryRows } from '../support/object-network.ts'

const START_MS = 1_700_000_000_000
const WINDOW_MS = 60_000
const REMEMBER_MS = 180_000
const CHARGE = createCharge('quota', [{ limit: 10, windowMs: WINDOW_MS }], { cost: 2 })
const SLOT = createCharge('concurrency', [{ limit: 10, windowMs: WINDOW_MS }], { slot: 7 })

function subject() {
  const rows = new MemoryRows()
  const ledger = new Ledger(rows, loadState(rows))
  /** Reads a clock that shows so many milliseconds since the start. */
  const at = (ms: number) => {
    ledger.readClock((START_MS + ms) * 1000)
    return ledger
  }
  const charge = (ms: number, id?: number, permits = 1, isNew = false) => {
    const shared = id === undefined ? {} : { shared: { id, siblings: ['sibling'], precedesNewIdentities: true } }
    return at(ms).charge({ action: 'take', permits, charge: CHARGE, ...shared }, permits, isNew)
  }
  const findOpen = (id: number) => ledger.state.open.get(id) as Open
  return { rows, ledger, at, charge, findOpen }
}

test('Ledger reads no time before that of the last charge; open charges age by a step back of the clock', () => {
  const { ledger, at, charge, findOpen } = subject()
  ledger.readClock(START_MS * 1000 + 999)
  expect([ledger.nowMs, ledger.nowUs]).toEqual([START_MS, START_MS * 1000 + 999])
  charge(5_000, 1)
  expect([at(5_000).findAgeMs(findOpen(1)), at(6_000).findAgeMs(findOpen(1))]).toEqual([0, 1_000])
  // Back, by part of a millisecond.
  ledger.readClock((START_MS + 4_000) * 1000 - 1)
  expect([ledger.nowMs, findOpen(1).atMs]).toEqual([START_MS + 5_000, START_MS + 5_000 - 2_001])
  expect(ledger.findAgeMs(findOpen(1))).toBe(1_000)
  ledger.reach((START_MS + 4_500) * 1000)
  expect(ledger.findAgeMs(findOpen(1))).toBe(1_501)
  ledger.reach(START_MS * 1000)
  expect(ledger.findAgeMs(findOpen(1))).toBe(1_501)
  charge(9_000, 2)
  expect(at(8_000).nowMs).toBe(START_MS + 9_000)
})

test('Ledger knows a state until it expires', () => {
  const { ledger, at, charge } = subject()
  expect(at(0).known).toBeUndefined()
  charge(0)
  expect([at(WINDOW_MS).known, at(WINDOW_MS + 1).known]).toEqual([ledger.state.kept.state, undefined])
})

test('Ledger#charge() charges openly what may be taken back, and writes in either case', () => {
  const { rows, ledger, charge, findOpen } = subject()
  expect(charge(0)).toBe(0)
  expect([rows.written, ledger.state.open.size, ledger.state.clockUs]).toEqual([1, 0, START_MS * 1000])
  charge(1, 5, 3, true)
  const { limits } = CHARGE
  const open = { atMs: START_MS + 1, dateMs: START_MS + 1, permits: 3, cost: 2, slot: 0, siblings: ['sibling'] }
  expect(findOpen(5)).toEqual({ ...open, isNew: true, charge: { algorithm: 'quota', limits } })
  expect([rows.written, ledger.findEnd(5)]).toEqual([2, 'granted'])
  charge(2, 6)
  expect(findOpen(6).isNew).toBe(false)
  expect(loadState(rows)).toEqual(ledger.state)
})

test('Ledger#takeBack() leaves what the permits cost that stay, and nothing of a key that is gone', () => {
  const { ledger, charge, findOpen } = subject()
  const countUsed = () =>
    (ledger.known as ReadonlyMap<number, { readonly used: number }> | undefined)?.get(WINDOW_MS)?.used
  charge(0, 1, 3)
  ledger.takeBack(findOpen(1), 2)
  expect([countUsed(), ledger.state.kept.expiresAtMs]).toEqual([4, START_MS + WINDOW_MS])
  ledger.takeBack({ ...findOpen(1), permits: 2 }, 0)
  expect(ledger.state.kept).toEqual({ state: undefined, expiresAtMs: 0 })
  for (const act of [ledger.trim, ledger.keep]) act.call(ledger, findOpen(1))
  ledger.takeBack(findOpen(1), 0)
  expect(ledger.state.kept).toEqual({ state: undefined, expiresAtMs: 0 })
})

test('Ledger#trim() drops what a log kept in case that a charge is taken back; other states keep nothing for that', () => {
  for (const algorithm of ['sliding-window', 'token-bucket'] as const) {
    const { ledger, at, findOpen } = subject()
    const charge = createCharge(algorithm, [{ limit: 10, windowMs: 1_000 }])
    const shared = { siblings: [], precedesNewIdentities: false }
    for (const [id, ms] of [0, 10, 1_010].entries()) {
      at(ms).charge({ action: 'take', permits: 1, charge, shared: { ...shared, id } }, 1, false)
    }
    const log = () => (ledger.known as { readonly size?: number }).size
    expect(log()).toBe(algorithm === 'sliding-window' ? 3 : undefined)
    ledger.trim(findOpen(0))
    ledger.keep(findOpen(0))
    expect(log()).toBe(algorithm === 'sliding-window' ? 1 : undefined)
  }
})

test('Ledger#keep() notes that a charge stays: a window whose first charge is taken back begins with it', () => {
  const { ledger, charge, findOpen } = subject()
  charge(0, 1)
  charge(10, 2)
  ledger.keep(findOpen(2))
  ledger.state.open.delete(2)
  ledger.takeBack(findOpen(1), 0)
  expect(ledger.known).toMatchObject(new Map([[WINDOW_MS, { startMs: START_MS + 10, used: 2 }]]))
})

test('Ledger#correct() deletes what is kept, and writes nothing of a key that it never knew', () => {
  const { rows, ledger, at, charge } = subject()
  at(0).correct({ kind: 'delete' })
  at(0).correct({ kind: 'settle', charge: CHARGE, units: -1, chargedAtMs: START_MS })
  expect([rows.written, ledger.state.algorithm]).toEqual([0, undefined])
  // It knows a slot that was never taken.
  at(0).correct({ kind: 'revoke', charge: SLOT })
  expect([ledger.state.algorithm, ledger.known]).toEqual([
    'concurrency',
    { slots: expect.anything(), expiresAtMs: expect.anything() },
  ])
  const written = rows.written
  at(0).correct({ kind: 'delete' })
  expect([rows.written > written, ledger.known]).toEqual([true, undefined])

  const other = subject()
  other.charge(0, 1)
  other.at(WINDOW_MS + 1).correct({ kind: 'delete' })
  expect([other.ledger.state.open.size, loadState(other.rows).open.size, other.ledger.findEnd(1)]).toEqual([
    0,
    0,
    'granted',
  ])
  charge(1)
  at(2).correct({ kind: 'settle', charge: CHARGE, units: 3, chargedAtMs: START_MS + 1 })
  expect(loadState(rows).kept).toMatchObject({
    state: new Map([[WINDOW_MS, { used: 5 }]]),
    expiresAtMs: START_MS + 2 + WINDOW_MS,
  })
})

test('Ledger#correct() leaves the life of a state that it does not prolong', () => {
  const { ledger, at } = subject()
  for (const slot of [1, 2]) at(0).charge({ action: 'take', permits: 1, charge: { ...SLOT, slot } }, 1, false)
  at(10).correct({ kind: 'release', charge: { ...SLOT, slot: 1 } })
  expect(ledger.state.kept.expiresAtMs).toBe(START_MS + 2 * WINDOW_MS)
})

test('Ledger remembers for three minutes how a decision ended', () => {
  const { ledger, at } = subject()
  expect(at(0).findEnd(1)).toBe('unknown')
  at(0).remember(1, 'granted')
  at(0).remember(2, 'void')
  const findEnds = (ms: number) => [at(ms).findEnd(1), ledger.findEnd(2)]
  expect(findEnds(REMEMBER_MS)).toEqual(['granted', 'void'])
  expect(findEnds(REMEMBER_MS + 1)).toEqual(['unknown', 'unknown'])
  at(REMEMBER_MS).remember(1, 'void')
  expect([...ledger.state.decisions.keys()]).toEqual([2, 1])
  // It is now the younger one.
  at(REMEMBER_MS + 1).remember(3, 'granted')
  expect([...ledger.state.decisions]).toEqual([
    [1, -(START_MS + REMEMBER_MS)],
    [3, START_MS + REMEMBER_MS + 1],
  ])
  expect(ledger.state.decided.tail).toEqual([-(START_MS + REMEMBER_MS), 1, START_MS + REMEMBER_MS + 1, 3])
})

test('Ledger wakes when nothing matters any more, and after a minute at least', () => {
  const { ledger, at, charge } = subject()
  const alarmMs = () => ledger.state.alarmAtMs - START_MS
  expect(at(0).rearm()).toBe(false)
  charge(0)
  expect(alarmMs()).toBe(WINDOW_MS + 1)
  expect([at(WINDOW_MS).rearm(), alarmMs(), at(WINDOW_MS + 1).rearm()]).toEqual([true, 2 * WINDOW_MS, false])
  // One that is ten minutes late is set again.
  at(2 * WINDOW_MS + 600_000).write()
  expect(alarmMs()).toBe(2 * WINDOW_MS)
  at(2 * WINDOW_MS + 600_001).write()
  expect(alarmMs()).toBe(3 * WINDOW_MS + 600_001)

  const decisions = subject()
  decisions.at(0).remember(1, 'void')
  decisions.at(1_000).remember(2, 'void')
  expect(decisions.ledger.state.alarmAtMs).toBe(START_MS + REMEMBER_MS + 1)
  expect([1_000 + REMEMBER_MS, 1_001 + REMEMBER_MS].map((ms) => decisions.at(ms).rearm())).toEqual([true, false])
})
