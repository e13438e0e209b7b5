/** The knowledge that an object has of its key, in memory, and how it keeps the state of an algorithm. */

import type { Commit, PenaltyState } from '../../algorithms/algorithm.ts'
import type { HeldSlot } from '../../algorithms/concurrency.ts'
import type { WindowLog } from '../../algorithms/window-log.ts'
import type { StoreCharge } from '../../model/charge.ts'
import type { AlgorithmName } from '../../model/limits.ts'
import type { PagedList, Rows } from './rows.ts'

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
  /** The slots that rows hold. */
  readonly slots: Map<number, HeldSlot>
  /** Milliseconds since the Unix epoch; 0 for never. */
  alarmAtMs: number
}

export interface Kept {
  /** Only the keeper of its algorithm looks into it. Undefined if nothing was charged, or all of it has expired. */
  readonly state: unknown
  readonly expiresAtMs: number
}

export const NOTHING: Kept = { state: undefined, expiresAtMs: 0 }

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

/** A charge, or a refusal to remember. */
export interface Change {
  readonly charge: StoreCharge
  readonly nowUs: number
  readonly units: number
  readonly leaseMs?: number | undefined
  readonly penalty?: PenaltyState
  /** It may be taken back. */
  readonly isOpen: boolean
}

export interface OpenCharge<State> extends Commit<State>, Pick<Open, 'dateMs' | 'undo'> {}

/** The head row holds this part of a state; its keeper has the rest in rows of their own. */
export interface StoredState {
  // biome-ignore lint/suspicious/noExplicitAny: JSON, which only the keeper reads that has written it
  readonly state?: any
  /** Without the entries that other rows hold. */
  readonly log?: Pick<WindowLog, 'keptMs' | 'penaltyMs' | 'penalty'> & {
    readonly entries: readonly number[]
    /** The number of the newest entries that still count; all, if missing. */
    readonly live?: number
  }
  readonly slotsExpireAtMs?: number
}

/** Keeps the state of one algorithm in an object: so that charges can be taken back, and in rows. */
export interface Keeper<State> {
  /** Commits a change, and notes what taking it back needs. */
  charge(before: State | undefined, change: Change, machine: MachineState, rows: Rows): OpenCharge<State>
  /** @returns the state as if these units of an open charge had never been charged; undefined if nothing else was */
  takeBack(state: State, open: Open, units: number, machine: MachineState, rows: Rows): State | undefined
  /** Notes that an open charge stays. */
  keep?(state: State, open: Open, machine: MachineState): void
  /** Drops what was only needed in case that a charge with these limits is taken back. */
  trim?(state: State, charge: Open['charge'], nowMs: number, machine: MachineState, rows: Rows): void
  /** Counts all units that it knows of, for an algorithm that detects new identities. */
  countUnits?(state: State): number
  write(state: State | undefined, machine: MachineState, rows: Rows): StoredState
  /** @param entries those of a log that are in rows of their own */
  read(stored: StoredState, machine: MachineState, entries: readonly number[]): State | undefined
}
