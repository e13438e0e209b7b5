/** Reads and writes the state of an object in its rows. */

import type { AlgorithmState } from '../../algorithms/algorithm-table.ts'
import { fixedWindow, quota } from '../../algorithms/counted-windows.ts'
import { slidingWindow, sortedSet } from '../../algorithms/sliding-window.ts'
import type { AlgorithmName } from '../../model/limits.ts'
import { bucketKeeper } from './bucket-keeper.ts'
import { createCountKeeper, createQuotaKeeper } from './count-keeper.ts'
import { createLogKeeper } from './log-keeper.ts'
import { type Keeper, type MachineState, NOTHING, type Open, type StoredState } from './machine-state.ts'
import { addPage, DECISIONS, forEachPair, HEAD, LOG, type Rows, SLOTS, writePages } from './rows.ts'
import { slotKeeper } from './slot-keeper.ts'

// biome-ignore lint/suspicious/noExplicitAny: each over the state of its algorithm, as its row is checked to be
export const KEEPERS: Readonly<Record<AlgorithmName, Keeper<any>>> = {
  'sliding-window': createLogKeeper(slidingWindow),
  'token-bucket': bucketKeeper,
  'fixed-window': createCountKeeper(fixedWindow),
  quota: createQuotaKeeper(quota),
  'sorted-set': createLogKeeper(sortedSet),
  concurrency: slotKeeper,
} satisfies { readonly [Name in AlgorithmName]: Keeper<AlgorithmState<Name>> }

/** The head row, which each change writes. */
interface Head extends StoredState, Pick<MachineState, 'algorithm' | 'clockUs' | 'alarmAtMs'> {
  readonly expiresAtMs: number
  readonly open?: readonly (readonly [number, Open])[]
  readonly decided?: readonly number[]
  readonly firstKept?: readonly (readonly [number, number])[]
}

export function loadState(rows: Rows): MachineState {
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
  const readDecisions = (items: readonly number[]) =>
    forEachPair(items, (decidedMs, id) => {
      state.decisions.delete(id)
      state.decisions.set(id, decidedMs)
    })
  const entries: number[] = []
  let head: Head | undefined
  for (const { kind, n, body } of rows.list()) {
    const content = JSON.parse(body)
    if (kind === HEAD) head = content
    else if (kind === SLOTS) state.slots.set(n, { units: content[0], deadlineMs: content[1] })
    else if (kind === LOG) {
      addPage(state.log, n, content)
      entries.push(...content)
    } else if (kind === DECISIONS) {
      addPage(state.decided, n, content)
      readDecisions(content)
    }
  }
  if (!head) return state
  const { algorithm, clockUs, expiresAtMs, alarmAtMs, open = [], decided = [], firstKept = [] } = head
  for (const [id, charge] of open) state.open.set(id, charge)
  for (const [windowMs, dateMs] of firstKept) state.firstKept.set(windowMs, dateMs)
  readDecisions(decided)
  state.decided.tail = [...decided]
  const kept = { state: algorithm && KEEPERS[algorithm].read(head, state, entries), expiresAtMs }
  return { ...state, algorithm, clockUs, alarmAtMs, kept }
}

export function writeState(state: MachineState, rows: Rows): void {
  const { algorithm, clockUs, kept, firstKept, open, alarmAtMs, decided } = state
  writePages(decided, rows)
  const head: Head = {
    algorithm,
    clockUs,
    expiresAtMs: kept.expiresAtMs,
    alarmAtMs,
    ...(algorithm && KEEPERS[algorithm].write(kept.state, state, rows)),
    ...(open.size > 0 && { open: [...open] }),
    ...(decided.tail.length > 0 && { decided: decided.tail }),
    ...(firstKept.size > 0 && { firstKept: [...firstKept] }),
  }
  rows.put(HEAD, 0, JSON.stringify(head))
}
