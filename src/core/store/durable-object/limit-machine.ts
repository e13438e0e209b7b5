/**
 * One key's limits inside a Durable Object. A decision over several objects charges each of them in advance; the object
 * keeps such a charge open until it hears whether the whole was granted. If it hears nothing, it asks the other
 * objects, its siblings: what none of them granted is taken back. So no crash and no lost message leaves a limit
 * exceeded, nor a unit charged for nothing.
 */
import type { Commit } from '../../algorithms/algorithm.ts'
import { applyCorrection } from '../../algorithms/corrections.ts'
import { countWanted, detectsNewIdentities, type Evaluation, evaluateCharge } from '../../algorithms/decide.ts'
import type { StoreCharge } from '../../model/charge.ts'
import { type Change, type MachineState, NOTHING, type Open, type OpenCharge } from './machine-state.ts'
import type { CommitOrAbort, ObjectCorrection, ObjectDatabase, ObjectVote, PreparedCharge } from './objects.ts'
import { deleteBefore, type Rows, SqlRows } from './rows.ts'
import { KEEPERS, loadState, writeState } from './stored-state.ts'

/**
 * The siblings are asked about an open charge after this, and again until one has not granted it: a cancel may be on its
 * way to them.
 */
export const ASK_AFTER_MS = 5_000
/** No sibling is asked after this: what is not known to be void by then stays charged. */
export const ASK_UNTIL_MS = 30_000
/**
 * An object remembers for so long which decisions it has granted or given up. A decider admits nothing that took longer
 * than a minute, so all that it asked have granted within that; they ask each other until `ASK_UNTIL_MS` later. Twice
 * that is for clocks that run at different speeds.
 */
const REMEMBER_MS = 180_000
const MIN_ALARM_GAP_MS = 60_000
/** An alarm that is so late is set again. */
const LATE_ALARM_MS = 600_000
/** They are part of the row that each change writes. */
const MAX_OPEN = 1_000
/**
 * No more than this wait for each unit that may be given back. Later ones are refused at once: they would get it only if
 * all of these were refused elsewhere. A flood thus waits for nothing.
 */
const MAX_WAITING_PER_UNIT = 8
/** All that wait are decided again whenever one decision ends … */
const MAX_WAITING = 200
/** … each by looking at every open charge: in all so many looks. */
const MAX_LOOKS = 20_000

export function openMachine(sql: ObjectDatabase): LimitMachine {
  return new LimitMachine(new SqlRows(sql))
}

/**
 * One key's state and the part of an object in the protocol, which docs/how-stores-work.md describes. No I/O, and no
 * clock: each call gets the time, and puts what must last into `rows` before it returns.
 */
export class LimitMachine {
  readonly #rows: Rows
  readonly state: MachineState
  readonly #maxOpen: number
  /** The last reading of the clock, or the time that it must show by now, in microseconds. */
  #readUs: number

  /** @param state was read from these rows, and has changed since */
  constructor(rows: Rows, state = loadState(rows), maxOpen = MAX_OPEN) {
    this.#rows = rows
    this.state = state
    this.#maxOpen = maxOpen
    this.#readUs = state.clockUs
  }

  reserve(reservation: PreparedCharge, readUs: number): ObjectVote {
    const { action, permits, charge, shared } = reservation
    const nowUs = this.#readClock(readUs)
    const nowMs = toMs(nowUs)
    const opens = this.state.open
    const known = this.#findState(nowMs)
    let returnable = 0
    for (const open of opens.values()) returnable += open.permits * open.cost
    const { usage, fitting, chargeable, changed } = evaluateWithin(returnable, reservation, known, nowUs)
    const isNew = detectsNewIdentities(charge) && (known === undefined || this.#holdsOnlyNew(charge, known))
    // A penalty refuses whatever is given back.
    const isProvisional = returnable > 0 && usage[0]?.penaltyMs === undefined
    const vote = { usage, fitting, chargeable, charged: 0, forfeited: 0, nowMs, isNew, isProvisional, isVoid: false }
    // It has come twice, or after its end: nobody waits for this answer then.
    if (shared && this.#wasGranted(shared.id, nowMs) !== undefined)
      return { ...vote, isProvisional: false, isVoid: true }
    if (changed) {
      this.#commit({ charge, nowUs, units: 0, penalty: changed, isOpen: false })
      this.#write(nowMs)
    }
    // A shadow charge alone does not limit a grant.
    const mayBePart = action === 'take-up-to' && (charge.mode === 'enforce' || shared !== undefined)
    const isCharged = action !== 'peek' && (mayBePart || chargeable >= permits)
    const charged = isCharged ? Math.min(permits, chargeable) : 0
    if (charged === 0) return vote
    // Without an open charge, it could not be taken back.
    if (shared && opens.size >= this.#maxOpen) return { ...vote, isVoid: true }
    return { ...vote, charged, forfeited: this.#charge(reservation, charged, isNew, nowUs) }
  }

  /**
   * Two decisions may wait for each other, each at the object of one charge: the one with the higher number gives in
   * first, and the other gets what that one had.
   * @param waiting reservations that wait already, maybe this one
   * @returns milliseconds for which a refusal is worth holding back; 0 if no open charge that may be given back helps
   */
  findPatienceMs(reservation: PreparedCharge, vote: ObjectVote, waiting: ReadonlySet<PreparedCharge>): number {
    const { action, charge, shared, patienceMs = 0 } = reservation
    const wanted = countWanted(reservation)
    if (action === 'peek' || charge.mode !== 'enforce' || vote.fitting >= wanted || !vote.isProvisional) return 0
    let [returnable, longestMs] = [0, 0]
    for (const [id, open] of this.state.open) {
      // Older ones are those of isolates that have died, or whose messages were lost.
      const leftMs = (shared && id < shared.id ? patienceMs / 2 : patienceMs) - this.#findAgeMs(open)
      if (leftMs <= 0) continue
      returnable += open.permits * open.cost
      longestMs = Math.max(longestMs, leftMs)
    }
    const wantedUnits = wanted * charge.cost + charge.reserved
    if (vote.usage.some(({ remaining }) => remaining + returnable < wantedUnits)) return 0
    if (waiting.has(reservation)) return longestMs
    let waitingUnits = 0
    for (const other of waiting) waitingUnits += countWanted(other) * other.charge.cost
    const isFull = waiting.size >= Math.min(MAX_WAITING, MAX_LOOKS / this.state.open.size)
    return isFull || waitingUnits >= MAX_WAITING_PER_UNIT * returnable ? 0 : longestMs
  }

  /** A timer has run out: it is so late at least, whatever the clock will show. */
  reach(us: number): void {
    this.#readUs = Math.max(this.#readUs, us)
  }

  /** @returns whether the charge stands, as far as is known here */
  close({ id, permits, isPartial }: CommitOrAbort, readUs: number): boolean {
    const nowMs = toMs(this.#readClock(readUs))
    const { open: opens } = this.state
    const open = opens.get(id)
    // If a cancel has overtaken the reservation, that must not be charged when it comes.
    if (!open) return this.inquire(id, readUs)
    if (permits < open.permits) this.#takeBack(open, permits)
    // The end for a new identity comes twice: the decider may still wait for another object to which it is new.
    if (permits > 0 && (isPartial || open.isNew)) opens.set(id, { ...open, permits, isNew: false })
    else {
      const { kept } = this.state
      if (permits > 0 && kept.state !== undefined) {
        KEEPERS[open.charge.algorithm].trim?.(kept.state, open.charge, nowMs, this.state, this.#rows)
      }
      if (permits > 0) this.#keepOpen(open)
      opens.delete(id)
    }
    // That it stays need not be written: it would be asked about once more, at worst. A new identity's would lapse.
    if (permits === 0) this.#remember(id, false, nowMs)
    else if (permits < open.permits || open.isNew) this.#write(nowMs)
    return permits > 0
  }

  /** A sibling asks about a decision. @returns whether it was granted here; if not, it never will be */
  inquire(id: number, readUs: number): boolean {
    const nowMs = toMs(this.#readClock(readUs))
    const open = this.state.open.get(id)
    if (open?.isNew) this.#void(id, open, nowMs)
    const wasGranted = this.#wasGranted(id, nowMs)
    if (wasGranted === undefined) this.#remember(id, false, nowMs)
    return wasGranted === true
  }

  /** Settles what it can without its siblings. @returns the decisions to ask them about */
  settleOverdue(readUs: number): (readonly [id: number, siblings: readonly string[]])[] {
    const nowMs = toMs(this.#readClock(readUs))
    const { open: opens } = this.state
    const due: (readonly [number, readonly string[]])[] = []
    for (const [id, open] of opens) {
      const ageMs = this.#findAgeMs(open)
      if (ageMs < ASK_AFTER_MS) continue
      // Nobody was admitted before this object had heard so.
      if (open.isNew) this.#void(id, open, nowMs)
      else if (ageMs > ASK_UNTIL_MS) {
        this.#keepOpen(open)
        opens.delete(id)
      } else if (open.siblings.length > 0) due.push([id, open.siblings])
    }
    return due
  }

  /** A sibling has answered that it has not granted a decision. */
  void(id: number, readUs: number): void {
    const nowMs = toMs(this.#readClock(readUs))
    const open = this.state.open.get(id)
    if (open && this.#findAgeMs(open) <= ASK_UNTIL_MS) this.#void(id, open, nowMs)
  }

  correct(corrections: readonly ObjectCorrection[], readUs: number): void {
    for (const correction of corrections) this.#correct(correction, readUs)
  }

  #correct(correction: ObjectCorrection, readUs: number): void {
    const nowUs = this.#readClock(readUs)
    const nowMs = toMs(nowUs)
    const state = this.state
    const known = this.#findState(nowMs)
    if (correction.kind === 'delete') {
      // The decisions stay: siblings may ask about them.
      state.open.clear()
      deleteBefore(state.log, Number.POSITIVE_INFINITY, this.#rows)
      state.kept = NOTHING
      if (state.clockUs === 0 && known === undefined) return
    } else {
      const corrected = applyCorrection(correction, known, nowUs)
      if (!corrected) return
      state.algorithm = correction.charge.algorithm
      // Open charges can be removed as before: without them, a settlement would have moved the state as far.
      this.#keep(corrected, nowMs)
    }
    this.#write(nowMs)
  }

  /** Sets a new alarm. @returns false if nothing matters any more */
  rearm(readUs: number): boolean {
    const nowMs = toMs(this.#readClock(readUs))
    if (this.#endsAtMs < nowMs) return false
    this.state.alarmAtMs = 0
    this.#write(nowMs)
    return true
  }

  /** Nothing matters any more after this, milliseconds since the Unix epoch; 0 if nothing does. */
  get #endsAtMs(): number {
    const { kept, decided } = this.state
    const decidedMs = decided.tail.at(-2)
    const rememberedMs = decidedMs === undefined ? 0 : Math.abs(decidedMs) + REMEMBER_MS
    return Math.max(rememberedMs, kept.state === undefined ? 0 : kept.expiresAtMs)
  }

  /** @returns the forfeited units */
  #charge({ charge, leaseMs, shared }: PreparedCharge, permits: number, isNew: boolean, nowUs: number): number {
    const nowMs = toMs(nowUs)
    const { algorithm, limits, cost, slot = 0 } = charge
    const change = { charge, nowUs, units: permits * cost, leaseMs, isOpen: shared !== undefined }
    const { dateMs, undo, forfeited = 0 } = this.#commit(change)
    this.state.clockUs = nowUs
    if (shared) {
      const { id, siblings, precedesNewIdentities } = shared
      const open = { atMs: toMs(this.#readUs), permits, cost, slot, siblings, isNew: isNew && precedesNewIdentities }
      this.state.open.set(id, { ...open, dateMs, ...(undo && { undo }), charge: { algorithm, limits } })
      this.#remember(id, true, nowMs)
    } else this.#write(nowMs)
    return forfeited
  }

  #commit(change: Change): OpenCharge<unknown> {
    const state = this.state
    const { algorithm } = change.charge
    const nowMs = toMs(change.nowUs)
    const charged = KEEPERS[algorithm].charge(this.#findState(nowMs), change, state, this.#rows)
    state.algorithm = algorithm
    this.#keep(charged, nowMs)
    return charged
  }

  #takeBack(open: Open, permits: number): void {
    const state = this.state
    const { kept } = state
    if (kept.state === undefined) return
    const units = (open.permits - permits) * open.cost
    const left = KEEPERS[open.charge.algorithm].takeBack(kept.state, open, units, state, this.#rows)
    state.kept = left === undefined ? NOTHING : { ...kept, state: left }
  }

  #keepOpen(open: Open): void {
    const { kept } = this.state
    if (kept.state !== undefined) KEEPERS[open.charge.algorithm].keep?.(kept.state, open, this.state)
  }

  /** All that is charged is reserved for new identities, which may still be refused elsewhere. */
  #holdsOnlyNew({ algorithm }: StoreCharge, known: unknown): boolean {
    let units = 0
    for (const { isNew, permits, cost } of this.state.open.values()) units += isNew ? permits * cost : 0
    return units > 0 && units === KEEPERS[algorithm].countUnits?.(known)
  }

  #void(id: number, open: Open, nowMs: number): void {
    this.#takeBack(open, 0)
    this.state.open.delete(id)
    this.#remember(id, false, nowMs)
  }

  /** @returns undefined if the decision is not known */
  #wasGranted(id: number, nowMs: number): boolean | undefined {
    const decidedMs = this.state.decisions.get(id) ?? 0
    return Math.abs(decidedMs) + REMEMBER_MS >= nowMs ? decidedMs > 0 : undefined
  }

  #remember(id: number, isGranted: boolean, nowMs: number): void {
    const { decisions, decided } = this.state
    const decidedMs = isGranted ? nowMs : -nowMs
    decisions.delete(id)
    decisions.set(id, decidedMs)
    decided.tail.push(decidedMs, id)
    const sinceMs = nowMs - REMEMBER_MS
    for (const [oldest, ms] of decisions) {
      if (Math.abs(ms) >= sinceMs) break
      decisions.delete(oldest)
    }
    deleteBefore(decided, sinceMs, this.#rows)
    this.#write(nowMs)
  }

  #write(nowMs: number): void {
    const state = this.state
    // An alarm is a row as well: for what is charged all the time, there is one for each lifetime.
    if (state.alarmAtMs < nowMs - LATE_ALARM_MS)
      state.alarmAtMs = Math.max(this.#endsAtMs + 1, nowMs + MIN_ALARM_GAP_MS)
    writeState(state, this.#rows)
  }

  #keep({ state, ttlMs }: Commit<unknown>, nowMs: number): void {
    this.state.kept = { state, expiresAtMs: ttlMs === undefined ? this.state.kept.expiresAtMs : nowMs + ttlMs }
  }

  #findState(nowMs: number): unknown {
    const { state, expiresAtMs } = this.state.kept
    return expiresAtMs >= nowMs ? state : undefined
  }

  #findAgeMs(open: Open): number {
    return toMs(this.#readUs) - open.atMs
  }

  /**
   * The time is never before that of the last charge, whatever the clock of this machine or of the one before it shows.
   * If the clock has stepped back, open charges age by as much: siblings are asked before they forget.
   */
  #readClock(readUs: number): number {
    const backMs = Math.max(0, Math.ceil((this.#readUs - readUs) / 1000))
    for (const open of backMs > 0 ? this.state.open.values() : []) open.atMs -= backMs
    this.#readUs = readUs
    return Math.max(readUs, this.state.clockUs)
  }
}

/** A refusal leads to no penalty if it is only due to units that may be given back. @param returnable those units */
function evaluateWithin(returnable: number, reservation: PreparedCharge, state: unknown, nowUs: number): Evaluation {
  const { charge } = reservation
  const evaluation = evaluateCharge(charge, reservation, state, nowUs)
  const wanted = charge.cost * countWanted(reservation)
  if (!evaluation.changed || evaluation.usage.some(({ remaining }) => remaining + returnable < wanted))
    return evaluation
  const { penalty: _, ...withoutPenalty } = charge
  return evaluateCharge(withoutPenalty, reservation, state, nowUs)
}

function toMs(us: number): number {
  return Math.floor(us / 1000)
}
