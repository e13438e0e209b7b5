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

const EMPTY: Head = { algorithm: undefined, clockUs: 0, alarmAtMs: 0, expiresAtMs: 0 }

export function loadState(rows: Rows): MachineState {
  const [headRow, ...others] = rows.list()
  const head: Head = headRow ? JSON.parse(headRow.body) : EMPTY
  const { algorithm, clockUs, alarmAtMs, expiresAtMs } = head
  const state: MachineState = {
    algorithm,
    clockUs,
    alarmAtMs,
    kept: NOTHING,
    firstKept: new Map(head.firstKept),
    open: new Map(head.open),
    decisions: new Map(),
    log: { kind: LOG, pages: [], tail: [...(head.log?.entries ?? [])] },
    decided: { kind: DECISIONS, pages: [], tail: [...(head.decided ?? [])] },
    slots: new Map(),
  }
  const log = new WindowLog()
  const readItems = ({ kind }: PagedList, items: readonly number[]) => {
    for (let at = 0; at < items.length; at += 2) {
      const [ms, value] = [items[at] as number, items[at + 1] as number]
      if (kind === LOG) log.add(ms, value)
      else noteDecision(state, value, ms)
    }
  }
  for (const { kind, n, body } of others) {
    const content = JSON.parse(body)
    const list = [state.log, state.decided].find((list) => list.kind === kind)
    if (kind === SLOTS) state.slots.set(n, { units: content[0], deadlineMs: content[1] })
    if (!list) continue
    addPage(list, n, content)
    readItems(list, content)
  }
  for (const list of [state.log, state.decided]) readItems(list, list.tail)
  state.kept = { state: readKept(head, log, state), expiresAtMs }
  return state
}

/** The latest one becomes the last. */
export function noteDecision({ decisions }: MachineState, id: number, decidedMs: number): void {
  decisions.delete(id)
  decisions.set(id, decidedMs)
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
