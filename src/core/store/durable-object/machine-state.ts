import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import type { ConcurrencyState, HeldSlot } from '../../algorithms/concurrency.ts'
import { WindowLog } from '../../algorithms/window-log.ts'
import type { StoreCharge } from '../../model/charge.ts'
import type { AlgorithmName } from '../../model/limits.ts'
import { addPage, DECISIONS, HEAD, LOG, type PagedList, type Rows, SLOTS, writePages } from './rows.ts'

export interface MachineState {
  /** Undefined before the first charge. */
  algorithm: AlgorithmName | undefined
  /** Time of the last charge, in microseconds since the Unix epoch. */
  clockUs: number
  kept: Kept
  /** Dates of the first charges that nothing removes any more, by length of the window that they count in. */
  readonly firstKept: Map<number, number>
  /** Charges for shared decisions that are not closed, by the number of the decision. */
  readonly open: Map<number, Open>
  /** When shared decisions were granted or, negative, given up here, in milliseconds, by their numbers; oldest first. */
  readonly decisions: Map<number, number>
  readonly log: PagedList
  /** The rows of `decisions`. */
  readonly decided: PagedList
  readonly slots: Map<number, HeldSlot>
  /** Milliseconds since the Unix epoch; 0 for never. */
  alarmAtMs: number
}

export interface Kept {
  /** Undefined if nothing was charged, or all of it has expired. */
  readonly state: unknown
  readonly expiresAtMs: number
}

export interface Open {
  /** When it was charged, less what the clock has stepped back since. */
  atMs: number
  readonly permits: number
  readonly cost: number
  /** Date of its entry in a log, or its time. */
  readonly dateMs: number
  readonly slot: number
  readonly charge: Pick<StoreCharge, 'algorithm' | 'limits'>
  readonly siblings: readonly string[]
  /** The identity is new: nobody is admitted before it is closed. */
  readonly isNew: boolean
  undo?: Undo
}

/** A charge of a token bucket, to be given back. Both figures are units times the window in µs. */
export interface Undo {
  owed: number
  /**
   * The most that can be given back: a bucket that lacked less would have been full when a later charge came, and given
   * back what it had lost by being full.
   */
  slack: number
}

export const NOTHING: Kept = { state: undefined, expiresAtMs: 0 }

/** The head row; `log` only has the entries that no other row holds. */
interface Head extends Pick<MachineState, 'algorithm' | 'clockUs' | 'alarmAtMs'> {
  readonly expiresAtMs: number
  readonly state?: unknown
  readonly log?: Pick<WindowLog, 'keptMs' | 'penaltyMs' | 'penalty'> & {
    readonly entries: readonly number[]
    /** The number of the newest entries that still count; all, if missing. */
    readonly live?: number
  }
  readonly slotsExpireAtMs?: number
  readonly open?: readonly (readonly [number, Open])[]
  readonly decided?: readonly number[]
  readonly firstKept?: readonly (readonly [number, number])[]
}

export function loadState(rows: Rows): MachineState {
  const log = new WindowLog()
  const state: MachineState = {
    algorithm: undefined,
    clockUs: 0,
    kept: NOTHING,
    firstKept: new Map(),
    open: new Map(),
    decisions: new Map(),
    log: { kind: LOG, pages: [], tail: [] },
    decided: { kind: DECISIONS, pages: [], tail: [] },
    slots: new Map(),
    alarmAtMs: 0,
  }
  const readEntries = (entries: readonly number[]) => forEachPair(entries, (dateMs, units) => log.add(dateMs, units))
  const readDecisions = (items: readonly number[]) =>
    forEachPair(items, (decidedMs, id) => {
      state.decisions.delete(id)
      state.decisions.set(id, decidedMs)
    })
  let head: Head | undefined
  for (const { kind, n, body } of rows.list()) {
    const content = JSON.parse(body)
    if (kind === HEAD) head = content
    else if (kind === SLOTS) state.slots.set(n, { units: content[0], deadlineMs: content[1] })
    else if (kind === LOG) {
      addPage(state.log, n, content)
      readEntries(content)
    } else if (kind === DECISIONS) {
      addPage(state.decided, n, content)
      readDecisions(content)
    }
  }
  if (!head) return state
  const { algorithm, clockUs, expiresAtMs, alarmAtMs, open = [], decided = [], log: { entries = [] } = {} } = head
  for (const [id, charge] of open) state.open.set(id, charge)
  for (const [windowMs, dateMs] of head.firstKept ?? []) state.firstKept.set(windowMs, dateMs)
  readDecisions(decided)
  state.decided.tail = [...decided]
  readEntries(entries)
  state.log.tail = [...entries]
  return { ...state, algorithm, clockUs, alarmAtMs, kept: { state: readKept(head, log, state), expiresAtMs } }
}

function forEachPair(numbers: readonly number[], use: (first: number, second: number) => void): void {
  for (let at = 0; at < numbers.length; at += 2) use(numbers[at] as number, numbers[at + 1] as number)
}

function readKept(head: Head, log: WindowLog, { slots }: MachineState): unknown {
  const { state, log: stored, slotsExpireAtMs: expiresAtMs } = head
  if (expiresAtMs !== undefined) return { slots: new Map(slots), expiresAtMs } satisfies ConcurrencyState
  // Windows by their length are a map, which JSON lacks.
  if (!stored) return Array.isArray(state) ? new Map(state) : (state ?? undefined)
  const { keptMs, penaltyMs, penalty, live = Number.POSITIVE_INFINITY } = stored
  log.dropAllBut(live)
  return Object.assign(log, { keptMs, penaltyMs, penalty })
}

export function writeState(state: MachineState, rows: Rows): void {
  const { algorithm, clockUs, kept, firstKept, open, alarmAtMs, decided } = state
  writePages(decided, rows)
  const head: Head = {
    algorithm,
    clockUs,
    expiresAtMs: kept.expiresAtMs,
    alarmAtMs,
    ...writeKept(state, rows),
    ...(open.size > 0 && { open: [...open] }),
    ...(decided.tail.length > 0 && { decided: decided.tail }),
    ...(firstKept.size > 0 && { firstKept: [...firstKept] }),
  }
  rows.put(HEAD, 0, JSON.stringify(head))
}

function writeKept(state: MachineState, rows: Rows): Pick<Head, 'state' | 'log' | 'slotsExpireAtMs'> {
  const { algorithm, kept, log, slots } = state
  const { isLog, holdsSlots } = algorithm ? ALGORITHMS[algorithm] : {}
  if (holdsSlots) {
    const held = kept.state as ConcurrencyState | undefined
    writeSlots(slots, held?.slots ?? new Map(), rows)
    return held ? { slotsExpireAtMs: held.expiresAtMs } : {}
  }
  if (kept.state === undefined) return {}
  if (!isLog) return { state: kept.state instanceof Map ? [...kept.state] : kept.state }
  const { keptMs, penaltyMs, penalty, size } = kept.state as WindowLog
  return { log: { keptMs, penaltyMs, penalty, entries: log.tail, live: size } }
}

function writeSlots(written: Map<number, HeldSlot>, slots: ReadonlyMap<number, HeldSlot>, rows: Rows): void {
  for (const slot of written.keys()) {
    if (slots.has(slot)) continue
    rows.delete(SLOTS, slot)
    written.delete(slot)
  }
  for (const [slot, held] of slots) {
    // A changed one is another object.
    if (written.get(slot) === held) continue
    rows.put(SLOTS, slot, `[${held.units},${held.deadlineMs}]`)
    written.set(slot, held)
  }
}
