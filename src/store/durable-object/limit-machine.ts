import type { PenaltyState } from '../../algorithms/algorithm.ts'
import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import { type ConcurrencyState, releaseSlot, renewSlot, revokeSlot } from '../../algorithms/concurrency.ts'
import { detectsNewIdentities, evaluateCharge } from '../../algorithms/decide.ts'
import { longestWindowMs, type SlidingWindowState, trim } from '../../algorithms/sliding-window.ts'
import type { StoreCharge } from '../../model/charge.ts'
import type { AlgorithmName } from '../../model/limits.ts'
import {
  addDecision,
  type Decided,
  loadState,
  type MachineState,
  NOTHING,
  type Open,
  writeState,
} from './machine-state.ts'
import type { CommitOrAbort, Correction, ObjectDatabase, ObjectVote, PreparedCharge } from './objects.ts'
import { addEntry, forgetBefore, type Rows, removeUnits, SqlRows, writePages } from './rows.ts'
import { recordUndo, removeCharge, type Undo } from './undo.ts'
import { type Answer, WaitQueue } from './wait-queue.ts'

/** After this, the siblings are asked about an open charge. */
export const ASK_AFTER_MS = 5_000
/** What all siblings had granted is asked about once more after this: a cancel may have been on its way to them. */
export const ASK_AGAIN_AFTER_MS = 20_000
/** After this, no sibling is asked any more: what is not known to be void by then stays charged. */
export const ASK_UNTIL_MS = 30_000
/**
 * How long an object knows which decisions it has granted or given up. A decider lets nothing through that took longer
 * than a minute, so all that it asked have granted within that; they ask each other until `ASK_UNTIL_MS` later. Twice
 * that is for clocks that run at different speeds.
 */
export const REMEMBER_MS = 180_000
/** Between two alarms of an object, at least. */
const MIN_REST_MS = 60_000
/** An alarm that is so late is set again. */
const LATE_ALARM_MS = 600_000
/** Open charges are part of the row that each change writes. */
const MAX_OPEN = 1_000

/** What a charge has changed. */
interface Charged {
  /** Of the entry, in a log. */
  readonly dateMs: number
  readonly forfeited: number
  readonly undo?: Undo
}

export function openMachine(sql: ObjectDatabase): LimitMachine {
  return new LimitMachine(new SqlRows(sql))
}

/**
 * One key's state and the part of an object in the protocol, described in docs/stores.md. No I/O, and no clock: each
 * call is told the time, and puts what must last into `rows` before it returns.
 */
export class LimitMachine {
  readonly #rows: Rows
  readonly #state: MachineState
  readonly #maxOpen: number
  /** In memory only: who waits has to ask again after the object has ended. */
  readonly #queue = new WaitQueue()
  /** The last reading of the clock, or what it must show by now, in microseconds. */
  #readUs: number
  /** Whether something that was uncertain may have been decided since those who wait were last considered. */
  #isDirty = false

  /**
   * @param state what was read from these rows, and has changed since
   * @param maxOpen charges that are open at most
   */
  constructor(rows: Rows, state = loadState(rows), maxOpen = MAX_OPEN) {
    this.#rows = rows
    this.#state = state
    this.#maxOpen = maxOpen
    this.#readUs = state.clockUs
  }

  get state(): MachineState {
    return this.#state
  }

  /** @returns undefined if it waits: `answers` has its answer later */
  reserve(reservation: PreparedCharge, readUs: number): ObjectVote | undefined {
    const vote = this.#vote(reservation, readUs)
    return this.#queue.add(reservation, vote, this.#state.open, toMs(readUs)) ? undefined : vote
  }

  /**
   * Answers those whose wait is over.
   * @param mayWait whether one may wait, if it is not too late by the clock
   */
  answers(readUs: number, mayWait?: (reservation: PreparedCharge) => boolean): Answer[] {
    this.#clock(readUs)
    const nowMs = toMs(readUs)
    const { untilMs } = this.#queue
    if (untilMs === undefined || !(this.#isDirty || mayWait || untilMs <= nowMs)) return []
    this.#isDirty = false
    return this.#queue.leave(
      (reservation) => this.#vote(reservation, readUs),
      this.#state.open,
      nowMs,
      mayWait ?? (() => true),
    )
  }

  /** It is so late at least, whatever the clock will show: a timer has run out. */
  reach(us: number): void {
    this.#readUs = Math.max(this.#readUs, us)
  }

  /** Those that wait, in the order in which they came. */
  get waiting(): readonly PreparedCharge[] {
    return this.#queue.reservations
  }

  /** When to ask for answers again, milliseconds since the Unix epoch; undefined if none waits. */
  get waitsUntilMs(): number | undefined {
    return this.#queue.untilMs
  }

  /** @returns whether what was reserved stands, as far as is known here */
  close({ id, permits, isProvisional }: CommitOrAbort, readUs: number): boolean {
    const nowMs = toMs(this.#touch(readUs))
    const { open: opens } = this.#state
    const open = opens.get(id)
    const decided = this.#decided(id, nowMs)
    if (!open) {
      // A cancel has overtaken the reservation, which must not be charged when it comes.
      if (permits === 0 && !decided) this.#remember(id, 0, nowMs)
      return (decided?.permits ?? 0) > 0
    }
    if (permits < open.permits) this.#takeBack(id, open, permits, nowMs)
    // Of a newcomer, the end is told twice: the decider may still wait for another object to which it is new.
    if (permits > 0 && (isProvisional || open.isNew)) opens.set(id, { ...open, permits, isNew: false })
    else {
      if (permits > 0) this.#trim(open.rule, nowMs)
      opens.delete(id)
    }
    // That it is kept need not be written: it would be asked about once more, at worst. A newcomer's charge would lapse.
    if (permits === 0) this.#remember(id, 0, nowMs)
    else if (permits < open.permits || open.isNew) this.#write(nowMs)
    return permits > 0
  }

  /** A sibling asks about a decision. @returns whether it was granted here; if not, it never will be */
  inquire(id: number, readUs: number): boolean {
    const nowMs = toMs(this.#touch(readUs))
    const open = this.#state.open.get(id)
    if (open?.isNew) this.#void(id, open, nowMs)
    const decided = this.#decided(id, nowMs)
    if (!decided) this.#remember(id, 0, nowMs)
    return (decided?.permits ?? 0) > 0
  }

  /** @returns the decisions to ask about at siblings. Those that can be settled without asking are settled */
  overdue(readUs: number): { readonly id: number; readonly siblings: readonly string[] }[] {
    const nowMs = toMs(this.#touch(readUs))
    const { open: opens } = this.#state
    const asked: { id: number; siblings: readonly string[] }[] = []
    for (const [id, open] of opens) {
      const ageMs = this.#ageMs(open)
      if (ageMs < ASK_AFTER_MS) continue
      // Nobody was let through before this object had heard so.
      if (open.isNew) this.#void(id, open, nowMs)
      else if (ageMs > ASK_UNTIL_MS) opens.delete(id)
      else if (ageMs >= askedAfterMs(open)) asked.push({ id, siblings: open.siblings })
    }
    return asked
  }

  /** All siblings have answered about a decision, or one that it is void. */
  learn(id: number, areGranted: boolean, readUs: number): void {
    const nowMs = toMs(this.#clock(readUs))
    const open = this.#state.open.get(id)
    if (!open || this.#ageMs(open) > ASK_UNTIL_MS) return
    this.#isDirty = true
    if (areGranted) open.grants++
    else this.#void(id, open, nowMs)
  }

  correct(correction: Correction, readUs: number): void {
    const nowUs = this.#touch(readUs)
    const nowMs = toMs(nowUs)
    const state = this.#state
    const known = this.#stateAt(nowMs)
    const held = known as ConcurrencyState | undefined
    switch (correction.kind) {
      case 'release':
        if (!held?.slots.has(correction.slot)) return
        releaseSlot(held, correction.slot)
        break
      case 'revoke':
        state.algorithm = 'concurrency'
        this.#keep(revokeSlot(held, correction.slot, nowMs), nowMs)
        break
      case 'renew':
        if (!held) return
        this.#keep(renewSlot(held, correction.slot, nowMs, correction.windowMs), nowMs)
        break
      case 'settle': {
        const { rule, chargedAtMs, units } = correction
        const { settle } = ALGORITHMS[rule.algorithm].implementation
        const settled = known === undefined ? undefined : settle?.(known, rule, nowUs, chargedAtMs, units)
        if (!settled) return
        // Open charges can be removed as before: without them, this would have moved the state as far.
        this.#keep(settled, nowMs)
        break
      }
      case 'forget':
        // Not the decisions: siblings may ask about them.
        state.open.clear()
        this.#dropLog()
        state.kept = NOTHING
        if (state.clockUs === 0) return
    }
    this.#write(nowMs)
  }

  /** When to wake the object, to see whether all of it is over, milliseconds since the Unix epoch; 0 for never. */
  get alarmAtMs(): number {
    return this.#state.alarmAtMs
  }

  /** Whether nothing of this matters any more. If something does, there is a new alarm. */
  isOverAt(readUs: number): boolean {
    const nowMs = toMs(this.#clock(readUs))
    if (this.#endsAtMs < nowMs && this.#queue.untilMs === undefined) return true
    this.#state.alarmAtMs = 0
    this.#write(nowMs)
    return false
  }

  /** When siblings are to be asked, milliseconds since the Unix epoch; undefined if they are not. */
  get asksAtMs(): number | undefined {
    let earliestMs: number | undefined
    for (const open of this.#state.open.values()) {
      const dueMs = open.atMs + Math.min(open.isNew ? ASK_AFTER_MS : askedAfterMs(open), ASK_UNTIL_MS + 1)
      if (earliestMs === undefined || dueMs < earliestMs) earliestMs = dueMs
    }
    return earliestMs
  }

  /** When nothing of this will matter any more, milliseconds since the Unix epoch; 0 if nothing does. */
  get #endsAtMs(): number {
    const { kept, decisions } = this.#state
    let latestMs = kept.state === undefined ? 0 : kept.expiresAtMs
    for (const { atMs } of decisions.values()) latestMs = Math.max(latestMs, atMs + REMEMBER_MS)
    return latestMs
  }

  #vote(reservation: PreparedCharge, readUs: number): ObjectVote {
    const { mode, permits, rule, shared } = reservation
    const nowUs = this.#clock(readUs)
    const nowMs = toMs(nowUs)
    const { open: opens } = this.#state
    const known = this.#stateAt(nowMs)
    const returnable = countReturnable(opens)
    const { usage, fitting, chargeable, changed } = voteWithin(returnable, rule, { mode, permits }, known, nowUs)
    const isNew = detectsNewIdentities(rule) && (known === undefined || isOfNewcomersOnly(known, opens))
    // While it is blocked, it does not matter what is given back.
    const isProvisional = returnable > 0 && usage[0]?.blockedMs === undefined
    const vote = { usage, fitting, chargeable, charged: 0, forfeited: 0, nowMs, isNew, isProvisional, isVoid: false }
    const decided = shared && this.#decided(shared.id, nowMs)
    if (decided) {
      // It has come twice, or after its end.
      const { permits: granted } = decided
      for (const tier of usage) tier.remaining += granted * rule.cost
      const isVoid = granted === 0
      return { ...vote, fitting: granted, chargeable: granted, charged: granted, isProvisional: false, isVoid }
    }
    if (changed) {
      this.#commit(rule, nowUs, 0, 0, 0, changed)
      this.#write(nowMs)
    }
    // A shadow rule alone does not limit a grant.
    const mayBePart = mode === 'partial' && (rule.enforced || shared !== undefined)
    const isCharged = mode !== 'peek' && (mayBePart || chargeable >= permits)
    const charged = isCharged ? Math.min(permits, chargeable) : 0
    if (charged === 0) return vote
    // What could not be taken back is not charged: nobody knows how this ends.
    if (shared && opens.size >= this.#maxOpen) return { ...vote, isVoid: true }
    return { ...vote, charged, forfeited: this.#charge(reservation, charged, isNew, nowUs) }
  }

  /** @returns units that are forfeited */
  #charge({ rule, leaseMs, shared }: PreparedCharge, permits: number, isNew: boolean, nowUs: number): number {
    const nowMs = toMs(nowUs)
    const { algorithm, tiers, cost, slot = 0 } = rule
    const log = ALGORITHMS[algorithm].isLog ? (this.#stateAt(nowMs) as SlidingWindowState | undefined) : undefined
    // What other limits still need must be there if this is taken back.
    if (log) log.keepsAll = shared !== undefined
    const { forfeited, ...charged } = this.#commit(rule, nowUs, permits * cost, leaseMs, shared?.id)
    if (log) log.keepsAll = false
    this.#state.clockUs = nowUs
    if (shared) {
      const { id, siblings, hasNewcomers } = shared
      const open = { atMs: toMs(this.#readUs), permits, cost, slot, siblings, isNew: isNew && hasNewcomers, grants: 0 }
      this.#state.open.set(id, { ...open, ...charged, rule: { algorithm, tiers } })
      this.#remember(id, permits, nowMs)
    } else this.#write(nowMs)
    return forfeited
  }

  /**
   * @param id of the decision; 0 if the charge stays
   * @param penalty a refusal to remember, instead of a charge
   */
  #commit(rule: StoreCharge, nowUs: number, units: number, leaseMs = 0, id = 0, penalty?: PenaltyState): Charged {
    const state = this.#state
    const nowMs = toMs(nowUs)
    const { isLog, holdsSlots, implementation: twin } = ALGORITHMS[rule.algorithm]
    const before = this.#stateAt(nowMs)
    if (isLog && !before) this.#dropLog()
    const commit = twin.commit(before, rule, nowUs, units, leaseMs, penalty)
    const { forfeited = 0 } = commit
    state.algorithm = rule.algorithm
    this.#keep(commit, nowMs)
    if (isLog) {
      const log = commit.state as SlidingWindowState
      const dateMs = log.dates.at(-1) ?? 0
      if (!penalty) addEntry(state.log, dateMs, units)
      this.#forgetEntries(log)
      writePages(state.log, this.#rows)
      return { dateMs, forfeited }
    }
    if (holdsSlots) return { dateMs: 0, forfeited }
    const change = { id, rule, nowUs, units: units + forfeited, leaseMs }
    return { dateMs: 0, forfeited, undo: recordUndo(before, commit.state, change, state.open) }
  }

  /** Forgets of a log what the rule that has charged it does not need. */
  #trim(rule: Open['rule'], nowMs: number): void {
    const log = this.#stateAt(nowMs) as SlidingWindowState | undefined
    if (!ALGORITHMS[rule.algorithm].isLog || !log) return
    trim(log, nowMs - longestWindowMs(rule))
    this.#forgetEntries(log)
  }

  #forgetEntries({ dates, head }: SlidingWindowState): void {
    forgetBefore(this.#state.log, dates[head] ?? Number.POSITIVE_INFINITY, this.#rows)
  }

  #dropLog(): void {
    this.#state.kept = { ...this.#state.kept, state: undefined }
    forgetBefore(this.#state.log, Number.POSITIVE_INFINITY, this.#rows)
  }

  /** @param permits those that stay charged */
  #takeBack(id: number, open: Open, permits: number, nowMs: number): void {
    const state = this.#state
    const { isLog, holdsSlots } = ALGORITHMS[state.algorithm as AlgorithmName]
    const units = (open.permits - permits) * open.cost
    const known = this.#stateAt(nowMs)
    if (isLog) {
      const log = known as SlidingWindowState | undefined
      if (!log) return
      removeUnits(state.log, log, open.dateMs, units, this.#rows)
      if (log.dates.length === log.head && !log.penalty) this.#dropLog()
    } else if (holdsSlots) removeSlotUnits(known as ConcurrencyState | undefined, open.slot, units)
    else {
      const left = removeCharge(state.kept.state, id, units, state.open)
      state.kept = left === undefined ? NOTHING : { ...state.kept, state: left }
    }
  }

  #void(id: number, open: Open, nowMs: number): void {
    this.#takeBack(id, open, 0, nowMs)
    this.#state.open.delete(id)
    this.#remember(id, 0, nowMs)
  }

  #decided(id: number, nowMs: number): Decided | undefined {
    const decided = this.#state.decisions.get(id)
    return decided && decided.atMs + REMEMBER_MS >= nowMs ? decided : undefined
  }

  #remember(id: number, permits: number, atMs: number): void {
    addDecision(this.#state, id, { permits, atMs }, atMs - REMEMBER_MS, this.#rows)
    this.#write(atMs)
  }

  #write(nowMs: number): void {
    const state = this.#state
    // An alarm is a row as well: for what is charged all the time, there is one for each lifetime.
    if (state.alarmAtMs < nowMs - LATE_ALARM_MS) state.alarmAtMs = Math.max(this.#endsAtMs + 1, nowMs + MIN_REST_MS)
    writeState(state, this.#rows)
  }

  #keep({ state, ttlMs }: { readonly state: unknown; readonly ttlMs?: number }, nowMs: number): void {
    const expiresAtMs = ttlMs === undefined ? this.#state.kept.expiresAtMs : nowMs + ttlMs
    this.#state.kept = { state, expiresAtMs }
  }

  #stateAt(nowMs: number): unknown {
    const { state, expiresAtMs } = this.#state.kept
    return expiresAtMs >= nowMs ? state : undefined
  }

  #ageMs(open: Open): number {
    return toMs(this.#readUs) - open.atMs
  }

  /** Something changes at this moment that others may wait for. */
  #touch(readUs: number): number {
    this.#isDirty = true
    return this.#clock(readUs)
  }

  /**
   * Never before the time of the last charge, whatever this machine's clock, or that of the one before it, shows. By
   * what the clock has stepped back, what waits is older than it shows: nobody waits for longer because of it, and
   * siblings are asked before they forget.
   */
  #clock(readUs: number): number {
    const backMs = Math.ceil((this.#readUs - readUs) / 1000)
    if (backMs > 0) {
      for (const open of this.#state.open.values()) open.atMs -= backMs
      this.#queue.ageBy(backMs)
    }
    this.#readUs = readUs
    return Math.max(readUs, this.#state.clockUs)
  }
}

/**
 * What a rule says. A refusal leads to no block if it would be none without what may be given back at any moment.
 * @param returnable units of that
 */
function voteWithin(
  returnable: number,
  rule: StoreCharge,
  asked: Parameters<typeof evaluateCharge>[1],
  state: unknown,
  nowUs: number,
) {
  const vote = evaluateCharge(rule, asked, state, nowUs)
  const wanted = rule.cost * (asked.mode === 'partial' ? 1 : asked.permits)
  if (!vote.changed || vote.usage.some(({ remaining }) => remaining + returnable < wanted)) return vote
  const { block: _, ...unblocked } = rule
  return evaluateCharge(unblocked, asked, state, nowUs)
}

/** Units that may be given back at any moment. */
function countReturnable(opens: MachineState['open']): number {
  let units = 0
  for (const { grants, permits, cost } of opens.values()) if (grants === 0) units += permits * cost
  return units
}

/** Whether all that is charged is reserved by newcomers who may still be refused elsewhere. */
function isOfNewcomersOnly(state: unknown, opens: MachineState['open']): boolean {
  const { totals, before } = state as SlidingWindowState
  let units = 0
  for (const { isNew, permits, cost } of opens.values()) units += isNew ? permits * cost : 0
  return units > 0 && units === (totals.at(-1) ?? before) - before
}

/** How old an open charge is when its siblings are asked. */
function askedAfterMs({ siblings, grants }: Open): number {
  const dueMs = siblings.length > 0 ? [ASK_AFTER_MS, ASK_AGAIN_AFTER_MS][grants] : undefined
  return dueMs ?? Number.POSITIVE_INFINITY
}

function removeSlotUnits(held: ConcurrencyState | undefined, slot: number, units: number): void {
  const own = held?.slots.get(slot)
  if (!held || !own || own.deadlineMs < 0) return
  if (own.units <= units) releaseSlot(held, slot)
  else held.slots.set(slot, { ...own, units: own.units - units })
}

function toMs(us: number): number {
  return Math.floor(us / 1000)
}
