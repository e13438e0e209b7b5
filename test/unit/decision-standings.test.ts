import { expect, test } from 'vitest'
import { LimitMachine } from '../../src/core/store/durable-object/limit-machine.ts'
import type { CommitOrAbort, PreparedCharge } from '../../src/core/store/durable-object/objects.ts'
import { createCharge } from '../support/charges.ts'
import { MemoryRows } from '../support/object-network.ts'

const START_US = 1_700_000_000_000_000
const CHARGE = createCharge('sliding-window', [{ limit: 10, windowMs: 3_600_000 }], { cost: 1 })
const ID = 7
const PERMITS = 2

function prepare(precedesNewIdentities: boolean): PreparedCharge {
  const shared = { id: ID, siblings: ['sibling'], precedesNewIdentities }
  return { action: 'take', permits: PERMITS, charge: CHARGE, shared }
}

function reserve(machine: LimitMachine, precedesNewIdentities = false, atUs = START_US): string {
  const { charged, isVoid } = machine.reserve(prepare(precedesNewIdentities), atUs)
  return isVoid ? 'void' : `charged ${charged}`
}

function close(machine: LimitMachine, closing: Omit<CommitOrAbort, 'id'>): boolean {
  return machine.close({ id: ID, ...closing }, START_US)
}

/** Brings an object to how it knows the decision, each with no other charge. */
const STANDINGS = {
  unknown: () => {},
  unconfirmed: (machine) => reserve(machine, true),
  reserved: (machine) => reserve(machine),
  granted: (machine) => reserve(machine) && close(machine, { permits: PERMITS }),
  void: (machine) => reserve(machine) && close(machine, { permits: 0 }),
} satisfies Record<string, (machine: LimitMachine) => unknown>

const MESSAGES = {
  reserve: (machine) => reserve(machine),
  'reserve for a new identity': (machine) => reserve(machine, true),
  keep: (machine) => close(machine, { permits: PERMITS }),
  'keep less': (machine) => close(machine, { permits: 1 }),
  'keep a part': (machine) => close(machine, { permits: 1, isPartial: true }),
  cancel: (machine) => close(machine, { permits: 0 }),
  inquire: (machine) => machine.inquire(ID, START_US),
  deny: (machine) => machine.void(ID, START_US + 30_000_000),
  'deny late': (machine) => machine.void(ID, START_US + 30_001_000),
  early: (machine) => machine.settleOverdue(START_US + 4_999_000).length,
  overdue: (machine) => machine.settleOverdue(START_US + 5_000_000).length,
  'overdue for long': (machine) => machine.settleOverdue(START_US + 30_000_000).length,
  expire: (machine) => machine.settleOverdue(START_US + 30_001_000).length,
} satisfies Record<string, (machine: LimitMachine) => unknown>

/** @returns how the decision stands, and how many units it has charged */
function describeStanding(machine: LimitMachine): string {
  const { usage } = machine.reserve({ action: 'peek', permits: 1, charge: CHARGE }, START_US)
  const units = 10 - (usage[0]?.remaining ?? 0)
  const open = machine.state.open.get(ID)
  if (open) return `${open.isNew ? 'unconfirmed' : 'reserved'} ${units}`
  if (reserve(machine) !== 'void') return `unknown ${units}`
  return `${machine.inquire(ID, START_US) ? 'granted' : 'void'} ${units}`
}

/** After each message: the answer, how the decision stands then, and after a restart if that is another. */
const EXPECTED: Record<keyof typeof STANDINGS, Record<keyof typeof MESSAGES, readonly unknown[]>> = {
  unknown: {
    reserve: ['charged 2', 'reserved 2'],
    'reserve for a new identity': ['charged 2', 'unconfirmed 2'],
    keep: [false, 'void 0'],
    'keep less': [false, 'void 0'],
    'keep a part': [false, 'void 0'],
    cancel: [false, 'void 0'],
    inquire: [false, 'void 0'],
    deny: [undefined, 'unknown 0'],
    'deny late': [undefined, 'unknown 0'],
    early: [0, 'unknown 0'],
    overdue: [0, 'unknown 0'],
    'overdue for long': [0, 'unknown 0'],
    expire: [0, 'unknown 0'],
  },
  unconfirmed: {
    reserve: ['void', 'unconfirmed 2'],
    'reserve for a new identity': ['void', 'unconfirmed 2'],
    keep: [true, 'reserved 2'],
    'keep less': [true, 'reserved 1'],
    'keep a part': [true, 'reserved 1'],
    cancel: [false, 'void 0'],
    inquire: [false, 'void 0'],
    deny: [undefined, 'void 0'],
    'deny late': [undefined, 'unconfirmed 2'],
    early: [0, 'unconfirmed 2'],
    overdue: [0, 'void 0'],
    'overdue for long': [0, 'void 0'],
    expire: [0, 'void 0'],
  },
  reserved: {
    reserve: ['void', 'reserved 2'],
    'reserve for a new identity': ['void', 'reserved 2'],
    keep: [true, 'granted 2', 'reserved 2'],
    'keep less': [true, 'granted 1'],
    'keep a part': [true, 'reserved 1'],
    cancel: [false, 'void 0'],
    inquire: [true, 'reserved 2'],
    deny: [undefined, 'void 0'],
    'deny late': [undefined, 'reserved 2'],
    early: [0, 'reserved 2'],
    overdue: [1, 'reserved 2'],
    'overdue for long': [1, 'reserved 2'],
    expire: [0, 'granted 2', 'reserved 2'],
  },
  granted: {
    reserve: ['void', 'granted 2', 'reserved 2'],
    'reserve for a new identity': ['void', 'granted 2', 'reserved 2'],
    keep: [true, 'granted 2', 'reserved 2'],
    'keep less': [true, 'granted 2', 'reserved 2'],
    'keep a part': [true, 'granted 2', 'reserved 2'],
    cancel: [true, 'granted 2', 'reserved 2'],
    inquire: [true, 'granted 2', 'reserved 2'],
    deny: [undefined, 'granted 2', 'reserved 2'],
    'deny late': [undefined, 'granted 2', 'reserved 2'],
    early: [0, 'granted 2', 'reserved 2'],
    overdue: [0, 'granted 2', 'reserved 2'],
    'overdue for long': [0, 'granted 2', 'reserved 2'],
    expire: [0, 'granted 2', 'reserved 2'],
  },
  void: {
    reserve: ['void', 'void 0'],
    'reserve for a new identity': ['void', 'void 0'],
    keep: [false, 'void 0'],
    'keep less': [false, 'void 0'],
    'keep a part': [false, 'void 0'],
    cancel: [false, 'void 0'],
    inquire: [false, 'void 0'],
    deny: [undefined, 'void 0'],
    'deny late': [undefined, 'void 0'],
    early: [0, 'void 0'],
    overdue: [0, 'void 0'],
    'overdue for long': [0, 'void 0'],
    expire: [0, 'void 0'],
  },
}

const PAIRS = Object.entries(EXPECTED).flatMap(([standing, byMessage]) =>
  Object.entries(byMessage).map(([message, expected]) => [standing, message, expected] as const),
)

test.each(PAIRS)('LimitMachine: a decision that is %s, after %s', (standing, message, expected) => {
  const rows = new MemoryRows()
  const machine = new LimitMachine(rows)
  STANDINGS[standing as keyof typeof STANDINGS](machine)
  const answer = MESSAGES[message as keyof typeof MESSAGES](machine)
  const restarted = new LimitMachine(new MemoryRows(rows.list()))
  const [, now, later = now] = expected
  expect([answer, describeStanding(machine), describeStanding(restarted)]).toEqual([expected[0], now, later])
})

test('LimitMachine: a key that is deleted has nothing open, and still tells how decisions stand', () => {
  const machine = new LimitMachine(new MemoryRows())
  reserve(machine)
  machine.correct([{ kind: 'delete' }], START_US)
  expect(describeStanding(machine)).toBe('granted 0')
})

test('LimitMachine: an alarm leaves everything while a decision is remembered, though nothing is charged', () => {
  const machine = new LimitMachine(new MemoryRows())
  STANDINGS.void(machine)
  expect([180_000, 180_001].map((ms) => machine.rearm(START_US + ms * 1000))).toEqual([true, false])
})
