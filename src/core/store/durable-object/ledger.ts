/** One key's charges in an object, by a clock that never goes back, and in rows. It knows nothing of the protocol. */
import type { Commit } from '../../algorithms/algorithm.ts'
import { applyCorrection } from '../../algorithms/corrections.ts'
import { type Change, type MachineState, NOTHING, type Open, type OpenCharge } from './machine-state.ts'
import type { ObjectCorrection, PreparedCharge } from './objects.ts'
import { deleteBefore, type Rows } from './rows.ts'
import { KEEPERS, writeState } from './stored-state.ts'

/**
 * An object remembers for so long which decisions it has granted or given up. A decider admits nothing that took longer
 * than a minute, so all that it asked have granted within that; they ask each other until `ASK_UNTIL_MS` later. Twice
 * that is for clocks that run at different speeds.
 */
const REMEMBER_MS = 180_000
const MIN_ALARM_GAP_MS = 60_000
/** An alarm that is so late is set again. */
const LATE_ALARM_MS = 600_000

/** An object remembers how a decision ended. Its time is stored, negative for a void one. */
type End = 'granted' | 'void'

/** Its methods change what is known in memory; `write` and `remember` make that last. */
export class Ledger {
  readonly state: MachineState
  readonly #rows: Rows
  /** The last reading of the clock, or the time that it must show by now, in microseconds. */
  #readUs: number
  /** Time of what happens now, in microseconds. */
  nowUs: number

  constructor(rows: Rows, state: MachineState) {
    this.#rows = rows
    this.state = state
    this.#readUs = state.clockUs
    this.nowUs = state.clockUs
  }

  get nowMs(): number {
    return toMs(this.nowUs)
  }

  /** The state of the algorithm; undefined if nothing was charged, or all of it has expired. */
  get known(): unknown {
    const { state, expiresAtMs } = this.state.kept
    return expiresAtMs >= this.nowMs ? state : undefined
  }

  /** Nothing matters any more after this, milliseconds since the Unix epoch; 0 if nothing does. */
  get #endsAtMs(): number {
    const { kept, decided } = this.state
    const decidedMs = decided.tail.at(-2)
    const rememberedMs = decidedMs === undefined ? 0 : Math.abs(decidedMs) + REMEMBER_MS
    return Math.max(rememberedMs, kept.state === undefined ? 0 : kept.expiresAtMs)
  }

  /**
   * The time is never before that of the last charge, whatever the clock of this machine or of the one before it shows.
   * If the clock has stepped back, open charges age by as much: siblings are asked before they forget.
   */
  readClock(readUs: number): void {
    const backMs = Math.max(0, Math.ceil((this.#readUs - readUs) / 1000))
    for (const open of backMs > 0 ? this.state.open.values() : []) open.atMs -= backMs
    this.#readUs = readUs
    this.nowUs = Math.max(readUs, this.state.clockUs)
  }

  /** A timer has run out: it is so late at least, whatever the clock will show. */
  reach(us: number): void {
    this.#readUs = Math.max(this.#readUs, us)
  }

  findAgeMs(open: Open): number {
    return toMs(this.#readUs) - open.atMs
  }

  commit(change: Omit<Change, 'nowUs'>): OpenCharge<unknown> {
    const { state, nowUs } = this
    const { algorithm } = change.charge
    const charged = KEEPERS[algorithm].charge(this.known, { ...change, nowUs }, state, this.#rows)
    state.algorithm = algorithm
    this.#replace(charged)
    return charged
  }

  /** Charges permits, openly if they may have to be taken back. @returns the forfeited units */
  charge({ charge, leaseMs, shared }: PreparedCharge, permits: number, isNew: boolean): number {
    const { algorithm, limits, cost, slot = 0 } = charge
    const change = { charge, units: permits * cost, leaseMs, isOpen: shared !== undefined }
    const { dateMs, undo, forfeited = 0 } = this.commit(change)
    this.state.clockUs = this.nowUs
    if (shared) {
      const { id, siblings, precedesNewIdentities } = shared
      const open = { atMs: toMs(this.#readUs), permits, cost, slot, siblings, isNew: isNew && precedesNewIdentities }
      this.state.open.set(id, { ...open, dateMs, ...(undo && { undo }), charge: { algorithm, limits } })
      this.remember(id, 'granted')
    } else this.write()
    return forfeited
  }

  /** @param permits that stay, of all that are open */
  takeBack(open: Open, permits: number): void {
    const { state } = this
    const { kept } = state
    if (kept.state === undefined) return
    const units = (open.permits - permits) * open.cost
    const left = KEEPERS[open.charge.algorithm].takeBack(kept.state, open, units, state, this.#rows)
    state.kept = left === undefined ? NOTHING : { ...kept, state: left }
  }

  /** Drops what was only needed in case that this charge is taken back. */
  trim({ charge }: Open): void {
    const { kept } = this.state
    if (kept.state === undefined) return
    KEEPERS[charge.algorithm].trim?.(kept.state, charge, this.nowMs, this.state, this.#rows)
  }

  /** Notes that an open charge stays. */
  keep(open: Open): void {
    const { kept } = this.state
    if (kept.state !== undefined) KEEPERS[open.charge.algorithm].keep?.(kept.state, open, this.state)
  }

  correct(correction: ObjectCorrection): void {
    const { state, known } = this
    if (correction.kind === 'delete') {
      // The decisions stay: siblings may ask about them.
      state.open.clear()
      deleteBefore(state.log, Number.POSITIVE_INFINITY, this.#rows)
      state.kept = NOTHING
      if (state.clockUs === 0 && known === undefined) return
    } else {
      const corrected = applyCorrection(correction, known, this.nowUs)
      if (!corrected) return
      state.algorithm = correction.charge.algorithm
      // Open charges can be removed as before: without them, a settlement would have moved the state as far.
      this.#replace(corrected)
    }
    this.write()
  }

  /** How a decision ended here, or was granted until it ends. */
  findEnd(id: number): End | 'unknown' {
    const endMs = this.state.decisions.get(id) ?? 0
    if (Math.abs(endMs) + REMEMBER_MS < this.nowMs) return 'unknown'
    return endMs > 0 ? 'granted' : 'void'
  }

  remember(id: number, end: End): void {
    const { state, nowMs } = this
    const { decisions, decided } = state
    const endMs = end === 'granted' ? nowMs : -nowMs
    decisions.delete(id)
    decisions.set(id, endMs)
    decided.tail.push(endMs, id)
    const sinceMs = nowMs - REMEMBER_MS
    for (const [oldest, ms] of decisions) {
      if (Math.abs(ms) >= sinceMs) break
      decisions.delete(oldest)
    }
    deleteBefore(decided, sinceMs, this.#rows)
    this.write()
  }

  /** Sets a new alarm. @returns false if nothing matters any more */
  rearm(): boolean {
    if (this.#endsAtMs < this.nowMs) return false
    this.state.alarmAtMs = 0
    this.write()
    return true
  }

  write(): void {
    const { state, nowMs } = this
    // An alarm is a row as well: for what is charged all the time, there is one for each lifetime.
    if (state.alarmAtMs < nowMs - LATE_ALARM_MS)
      state.alarmAtMs = Math.max(this.#endsAtMs + 1, nowMs + MIN_ALARM_GAP_MS)
    writeState(state, this.#rows)
  }

  #replace({ state, ttlMs }: Commit<unknown>): void {
    this.state.kept = { state, expiresAtMs: ttlMs === undefined ? this.state.kept.expiresAtMs : this.nowMs + ttlMs }
  }
}

function toMs(us: number): number {
  return Math.floor(us / 1000)
}
