import type { Penalty } from '../../algorithms/algorithm.ts'
import { ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import { type ConcurrencyState, releaseSlot, renewSlot, revokeSlot } from '../../algorithms/concurrency.ts'
import { tellsNewIdentities, voteOf } from '../../algorithms/decide.ts'
import { emptyLog, longestWindowMs, type SlidingWindowState, trim } from '../../algorithms/sliding-window.ts'
import type { Rule } from '../../model/charge.ts'
import type { AlgorithmName } from '../../model/limits.ts'
import { type Book, forgetDecisions, type Open, readBook, writeBook } from './book.ts'
import { layOut, takeOff } from './log-layout.ts'
import type { Closing, Correction, ObjectVote, Reservation, Shared } from './messages.ts'
import { apply, compact, type Kept, keep, MOST_STEPS, NOTHING, type Step, stateAt } from './replay.ts'
import type { Rows } from './rows.ts'
import { takeOffBase } from './undo.ts'
import { type Answer, WaitingLine } from './waiting-line.ts'

/** After this, what nobody has closed is asked about at the siblings. */
export const ASK_AFTER_MS = 5_000
/** What all siblings had granted is asked about once more after this: a cancel may have been on its way to them. */
export const ASK_AGAIN_AFTER_MS = 20_000
/** After this, nobody asks any more: what is not known to be void by then stays charged. */
export const ASK_UNTIL_MS = 30_000
/**
 * So long an object knows which decisions it has granted or given up. A decider lets nothing through that took longer
 * than a minute, so all that it asked have granted within that; they ask each other until `ASK_UNTIL_MS` later. Twice
 * that is for clocks that run at different speeds.
 */
export const REMEMBER_MS = 180_000
/** Between two alarms of an object, at least. */
const LEAST_REST_MS = 60_000
/** An alarm that is so late is set again. */
const LATE_ALARM_MS = 600_000
/** Reservations that wait for their end at most: they are part of the row that each change writes. */
const MOST_OPEN = 1_000

/**
 * One key's state and the part of an object in the protocol, described in docs/stores.md. No I/O, and no clock: each
 * call is told the time, and puts what must last into `rows` before it returns.
 */
export class LimitMachine {
  readonly #rows: Rows
  readonly #book: Book
  readonly #mostSteps: number
  readonly #mostOpen: number
  /** In memory only: what waits ends with the object. */
  readonly #line = new WaitingLine()
  /** What the clock has shown last, or must show by now, in microseconds. */
  #readUs: number
  /** Whether something may be given back, or stay, that was not certain when those who wait were asked last. */
  #isStirred = false

  /**
   * @param book what was read from these rows, and has changed since
   * @param mostSteps that are remembered, so that a charge can be taken back as if it had never been
   * @param mostOpen reservations that wait for their end at most
   */
  constructor(rows: Rows, book = readBook(rows), mostSteps = MOST_STEPS, mostOpen = MOST_OPEN) {
    this.#rows = rows
    this.#book = book
    this.#mostSteps = mostSteps
    this.#mostOpen = mostOpen
    this.#readUs = book.clockUs
  }

  get book(): Book {
    return this.#book
  }

  /** @returns undefined if it waits: `answers` has its answer later */
  reserve(reservation: Reservation, readUs: number): ObjectVote | undefined {
    const vote = this.#vote(reservation, readUs)
    return this.#line.takes(reservation, vote, this.#book.open, Math.floor(readUs / 1000)) ? undefined : vote
  }

  /**
   * Of those that need wait no longer.
   * @param mayWait whether one may wait, if it is not too late by the clock
   */
  answers(readUs: number, mayWait?: (reservation: Reservation) => boolean): Answer[] {
    this.#clock(readUs)
    const nowMs = Math.floor(readUs / 1000)
    const { untilMs } = this.#line
    if (untilMs === undefined || !(this.#isStirred || mayWait || untilMs <= nowMs)) return []
    this.#isStirred = false
    return this.#line.leave(
      (reservation) => this.#vote(reservation, readUs),
      this.#book.open,
      nowMs,
      mayWait ?? (() => true),
    )
  }

  /** It is so late at least, whatever the clock will show: a timer has run out. */
  reach(us: number): void {
    this.#readUs = Math.max(this.#readUs, us)
  }

  /** Those that wait, in the order in which they came. */
  get waiting(): readonly Reservation[] {
    return this.#line.reservations
  }

  /** When to ask for answers again, milliseconds since the Unix epoch; undefined if nobody waits. */
  get waitsUntilMs(): number | undefined {
    return this.#line.untilMs
  }

  #vote({ mode, permits, leaseMs, rule, shared }: Reservation, readUs: number): ObjectVote {
    const nowUs = this.#clock(readUs)
    const nowMs = Math.floor(nowUs / 1000)
    const state = this.#stateAt(nowMs)
    const returnable = this.#returnable
    const { usage, fitting, chargeable, changed } = voteWithin(returnable, rule, { mode, permits }, state, nowUs)
    const isNew = tellsNewIdentities(rule) && (state === undefined || this.#holdsNewcomersAlone(state))
    // While it is blocked, it does not matter what is given back.
    const isProvisional = returnable > 0 && usage[0]?.blockedMs === undefined
    const noCharge = { charged: 0, forfeited: 0 }
    const vote = { usage, fitting, chargeable, ...noCharge, nowMs, isNew, isProvisional, isVoid: false }
    const decided = shared && this.#decided(shared.id, nowMs)
    if (decided) {
      // It has come twice, or after its end.
      const { permits: granted } = decided
      for (const tier of usage) tier.remaining += granted * rule.cost
      const isVoid = granted === 0
      return { ...vote, fitting: granted, chargeable: granted, charged: granted, isProvisional: false, isVoid }
    }
    if (changed) this.#penalize(rule, nowUs, changed)
    // A shadow rule alone is not what limits a grant.
    const mayBePart = mode === 'partial' && (rule.enforced || shared !== undefined)
    const isCharged = mode !== 'peek' && (mayBePart || chargeable >= permits)
    const charged = isCharged ? Math.min(permits, chargeable) : 0
    // What could not be taken back is not charged: nobody knows how this ends.
    if (charged > 0 && shared && this.#book.open.size >= this.#mostOpen) return { ...vote, isVoid: true }
    if (charged > 0) this.#charge(rule, nowUs, charged, leaseMs, shared, isNew)
    const { forfeited = 0 } = charged > 0 ? this.#book.kept : noCharge
    return { ...vote, charged, forfeited }
  }

  /** @returns whether what was reserved stands, as far as is known here */
  close({ id, permits, isProvisional }: Closing, readUs: number): boolean {
    this.#isStirred = true
    const nowMs = Math.floor(this.#clock(readUs) / 1000)
    const open = this.#book.open.get(id)
    const decided = this.#decided(id, nowMs)
    if (!open) {
      // A cancel has overtaken the reservation, which must not be charged when it comes.
      if (permits === 0 && !decided) this.#remember(id, 0, nowMs)
      return (decided?.permits ?? 0) > 0
    }
    if (permits < open.permits) this.#takeBack(id, open, permits, nowMs)
    // Of a newcomer, the end is told twice: the decider may still wait for another object to which it is new.
    if (permits > 0 && (isProvisional || open.isNew)) this.#book.open.set(id, { ...open, permits, isNew: false })
    else {
      if (permits > 0) this.#trim(open.rule, nowMs)
      this.#book.open.delete(id)
    }
    this.#compact()
    // That it is kept need not be written: it would be asked about once more, at worst. A newcomer's charge would lapse.
    if (permits === 0) this.#remember(id, 0, nowMs)
    else if (permits < open.permits || open.isNew) this.#write(nowMs)
    return permits > 0
  }

  /** A sibling asks what has become of a decision. @returns whether it was granted here; if not, it never will be */
  inquire(id: number, readUs: number): boolean {
    this.#isStirred = true
    const nowMs = Math.floor(this.#clock(readUs) / 1000)
    const open = this.#book.open.get(id)
    if (open?.isNew) return this.#void(id, open, nowMs)
    const decided = this.#decided(id, nowMs)
    if (!decided) this.#remember(id, 0, nowMs)
    return (decided?.permits ?? 0) > 0
  }

  /** What is to be asked at which siblings. What can be settled without that is. */
  overdue(readUs: number): { readonly id: number; readonly siblings: readonly string[] }[] {
    this.#isStirred = true
    const nowMs = Math.floor(this.#clock(readUs) / 1000)
    const asked: { id: number; siblings: readonly string[] }[] = []
    for (const [id, open] of this.#book.open) {
      const ageMs = this.#readMs - open.atMs
      if (ageMs < ASK_AFTER_MS) continue
      // Nobody was let through before this object had heard so.
      if (open.isNew) this.#void(id, open, nowMs)
      else if (ageMs > ASK_UNTIL_MS) this.#book.open.delete(id)
      else if (ageMs >= askedAfterMs(open)) asked.push({ id, siblings: open.siblings })
    }
    this.#compact()
    return asked
  }

  /** What all siblings have answered about a decision. */
  learn(id: number, areGranted: boolean, readUs: number): void {
    const nowMs = Math.floor(this.#clock(readUs) / 1000)
    const open = this.#book.open.get(id)
    if (!open || this.#readMs - open.atMs > ASK_UNTIL_MS) return
    this.#isStirred = true
    if (areGranted) {
      open.isCertain = open.isGranted
      open.isGranted = true
    } else this.#void(id, open, nowMs)
  }

  correct(correction: Correction, readUs: number): void {
    this.#isStirred = true
    switch (correction.kind) {
      case 'release':
        this.#release(correction.slot, readUs)
        break
      case 'revoke':
        this.#revoke(correction.slot, readUs)
        break
      case 'renew':
        this.#renew(correction.slot, correction.windowMs, readUs)
        break
      case 'settle':
        this.#settle(correction.rule, correction.units, correction.chargedAtMs, readUs)
        break
      case 'forget':
        this.#forget(readUs)
    }
  }

  /** For when to wake the object, to see whether all of it is over, milliseconds since the Unix epoch; 0 for never. */
  get alarmAtMs(): number {
    return this.#book.alarmAtMs
  }

  /** Whether nothing of this matters any more. If something does, there is a new alarm. */
  isOverAt(readUs: number): boolean {
    const nowMs = Math.floor(this.#clock(readUs) / 1000)
    if (this.#endsAtMs < nowMs && this.#line.untilMs === undefined) return true
    this.#book.alarmAtMs = 0
    this.#write(nowMs)
    return false
  }

  /** When something here is to be asked about, milliseconds since the Unix epoch; undefined if nothing is. */
  get asksAtMs(): number | undefined {
    let earliestMs: number | undefined
    for (const open of this.#book.open.values()) {
      const dueMs = open.atMs + Math.min(open.isNew ? ASK_AFTER_MS : askedAfterMs(open), ASK_UNTIL_MS + 1)
      if (earliestMs === undefined || dueMs < earliestMs) earliestMs = dueMs
    }
    return earliestMs
  }

  /** When nothing of this will matter any more, milliseconds since the Unix epoch; 0 if nothing does. */
  get #endsAtMs(): number {
    const { kept, decisions } = this.#book
    let latestMs = kept.state === undefined ? 0 : kept.expiresAtMs
    for (const { atMs } of decisions.values()) latestMs = Math.max(latestMs, atMs + REMEMBER_MS)
    return latestMs
  }

  /** Units that may be given back at any moment. */
  get #returnable(): number {
    let units = 0
    for (const { isGranted, permits, cost } of this.#book.open.values()) if (!isGranted) units += permits * cost
    return units
  }

  /** Never before the time of the last charge, whatever this machine's clock, or that of the one before it, shows. */
  #clock(readUs: number): number {
    this.#ageBy(Math.ceil((this.#readUs - readUs) / 1000))
    this.#readUs = readUs
    return Math.max(readUs, this.#book.clockUs)
  }

  /**
   * By what the clock has stepped back, what waits is older than it shows: nobody waits for longer because of it, and
   * siblings are asked before they forget.
   */
  #ageBy(ms: number): void {
    if (ms <= 0) return
    for (const open of this.#book.open.values()) open.atMs -= ms
    this.#line.ageBy(ms)
  }

  get #readMs(): number {
    return Math.floor(this.#readUs / 1000)
  }

  #stateAt(nowMs: number): unknown {
    return stateAt(this.#book.kept, nowMs)
  }

  #slotsAt(readUs: number): ConcurrencyState | undefined {
    return this.#stateAt(Math.floor(this.#clock(readUs) / 1000)) as ConcurrencyState | undefined
  }

  #release(slot: number, readUs: number): void {
    const held = this.#slotsAt(readUs)
    if (!held?.slots.has(slot)) return
    releaseSlot(held, slot)
    this.#write(Math.floor(readUs / 1000))
  }

  /** Gives a slot back that may not be taken yet. */
  #revoke(slot: number, readUs: number): void {
    const nowMs = Math.floor(this.#clock(readUs) / 1000)
    this.#book.algorithm = 'concurrency'
    this.#book.kept = keep(revokeSlot(this.#slotsAt(readUs), slot, nowMs), this.#book.kept, nowMs)
    this.#write(nowMs)
  }

  #renew(slot: number, windowMs: number, readUs: number): void {
    const nowMs = Math.floor(this.#clock(readUs) / 1000)
    const held = this.#slotsAt(readUs)
    if (!held) return
    this.#book.kept = keep(renewSlot(held, slot, nowMs, windowMs), this.#book.kept, nowMs)
    this.#write(nowMs)
  }

  #settle(rule: Rule, units: number, chargedAtMs: number, readUs: number): void {
    const nowUs = this.#clock(readUs)
    if (!ALGORITHMS[rule.algorithm].twin.settle) return
    this.#step({ id: 0, nowUs, units, rule: essential(rule), chargedAtMs })
    this.#write(Math.floor(nowUs / 1000))
  }

  /** What was charged, and not what was decided. */
  #forget(readUs: number): void {
    const book = this.#book
    book.open.clear()
    book.replay = { base: NOTHING, steps: [] }
    this.#dropLog()
    book.kept = NOTHING
    if (book.clockUs > 0) this.#write(Math.floor(this.#clock(readUs) / 1000))
  }

  #charge(
    rule: Rule,
    nowUs: number,
    permits: number,
    leaseMs: number | undefined,
    shared: Shared | undefined,
    isNew: boolean,
  ): void {
    const book = this.#book
    const nowMs = Math.floor(nowUs / 1000)
    const { isLog, holdsSlots, twin } = ALGORITHMS[rule.algorithm]
    const units = permits * rule.cost
    book.algorithm = rule.algorithm
    book.clockUs = nowUs
    let dateMs = 0
    if (isLog) {
      const log = this.#stateAt(nowMs) as SlidingWindowState | undefined
      // What other limits still need must be there if this is taken back.
      if (log) log.keepsAll = shared !== undefined
      dateMs = this.#enter(rule, nowUs, units, leaseMs)
      if (log) log.keepsAll = false
    } else if (holdsSlots) book.kept = keep(twin.commit(this.#stateAt(nowMs), rule, nowUs, units), book.kept, nowMs)
    else this.#step({ id: shared?.id ?? 0, nowUs, units, ...(leaseMs && { leaseMs }), rule: essential(rule) })
    if (shared) {
      const { siblings, hasNewcomers } = shared
      const { cost, slot = 0 } = rule
      const isOfNewcomer = isNew && hasNewcomers
      const whose = { siblings, isNew: isOfNewcomer, isGranted: false, isCertain: false }
      book.open.set(shared.id, { atMs: this.#readMs, permits, cost, dateMs, slot, rule: essential(rule), ...whose })
      this.#compact()
      this.#remember(shared.id, permits, nowMs)
    } else this.#write(nowMs)
  }

  /** Forgets of a log what the rule that has charged it does not need. */
  #trim(rule: Step['rule'], nowMs: number): void {
    const log = this.#stateAt(nowMs) as SlidingWindowState | undefined
    if (!ALGORITHMS[rule.algorithm].isLog || !log) return
    trim(log, nowMs - longestWindowMs(rule))
    layOut(this.#book.log, log, this.#rows)
  }

  /** @returns the date of the newest entry */
  #enter(rule: Rule, nowUs: number, units: number, leaseMs: number | undefined, penalty?: Penalty): number {
    const book = this.#book
    const nowMs = Math.floor(nowUs / 1000)
    const before = this.#stateAt(nowMs) as SlidingWindowState | undefined
    const lastMs = before?.dates.at(-1)
    if (!before) this.#dropLog()
    book.kept = keep(
      ALGORITHMS[rule.algorithm].twin.commit(before, rule, nowUs, units, leaseMs, penalty),
      book.kept,
      nowMs,
    )
    const log = book.kept.state as SlidingWindowState
    const dateMs = log.dates.at(-1) ?? 0
    if (!penalty && dateMs !== lastMs) book.log.tail++
    layOut(book.log, log, this.#rows)
    return dateMs
  }

  /** Remembers a refusal. */
  #penalize(rule: Rule, nowUs: number, penalty: Penalty): void {
    this.#book.algorithm = rule.algorithm
    if (ALGORITHMS[rule.algorithm].isLog) this.#enter(rule, nowUs, 0, 0, penalty)
    else this.#step({ id: 0, nowUs, units: 0, rule: essential(rule), penalty })
    this.#write(Math.floor(nowUs / 1000))
  }

  #dropLog(): void {
    this.#book.log.tail = 0
    this.#book.kept = { ...this.#book.kept, state: undefined }
    layOut(this.#book.log, emptyLog(), this.#rows)
  }

  /** Changes a state that can be told without one of its charges. */
  #step(step: Step): void {
    const book = this.#book
    const { replay } = book
    if (step.id !== 0 || book.open.size > 0) {
      replay.base = this.#base
      replay.steps.push(step)
    }
    book.kept = apply(book.kept, step)
  }

  /** What the steps have led from. Without any, it is not written. */
  get #base(): Kept {
    const { kept, replay } = this.#book
    return replay.steps.length > 0 ? replay.base : kept
  }

  #compact(): void {
    compact(this.#book.replay, this.#book.open, this.#mostSteps)
  }

  /** @param permits those that stay charged */
  #takeBack(id: number, open: Open, permits: number, nowMs: number): void {
    const book = this.#book
    const { isLog, holdsSlots } = ALGORITHMS[book.algorithm as AlgorithmName]
    const units = (open.permits - permits) * open.cost
    if (isLog) this.#takeOffLog(open.dateMs, units, nowMs)
    else if (holdsSlots) takeOffSlots(this.#stateAt(nowMs) as ConcurrencyState | undefined, open.slot, units)
    else {
      const { replay } = book
      const index = replay.steps.findIndex((step) => step.id === id)
      const step = replay.steps[index]
      if (step) replay.steps[index] = { ...step, units: step.units - units }
      else replay.base = takeOffBase(this.#base, open, units, book.open.values())
      book.kept = replay.steps.reduce(apply, replay.base)
    }
  }

  #takeOffLog(dateMs: number, units: number, nowMs: number): void {
    const log = this.#stateAt(nowMs) as SlidingWindowState | undefined
    if (!log) return
    takeOff(this.#book.log, log, dateMs, units, this.#rows)
    if (log.dates.length === log.head && !log.penalty) this.#dropLog()
  }

  #void(id: number, open: Open, nowMs: number): false {
    this.#takeBack(id, open, 0, nowMs)
    this.#book.open.delete(id)
    this.#compact()
    this.#remember(id, 0, nowMs)
    return false
  }

  /** Whether all that is charged is reserved by newcomers who may still be refused elsewhere. */
  #holdsNewcomersAlone(state: unknown): boolean {
    const { dates, totals, before } = state as SlidingWindowState
    let units = 0
    for (const { isNew, permits, cost } of this.#book.open.values()) units += isNew ? permits * cost : 0
    return units > 0 && units === (totals[dates.length - 1] ?? before) - before
  }

  #decided(id: number, nowMs: number): { readonly permits: number } | undefined {
    const decision = this.#book.decisions.get(id)
    return decision && decision.atMs + REMEMBER_MS >= nowMs ? decision : undefined
  }

  #remember(id: number, permits: number, atMs: number): void {
    const { decisions, decided } = this.#book
    // In order of time.
    decisions.delete(id)
    decisions.set(id, { permits, atMs })
    decided.recent.push(id, permits, atMs)
    forgetDecisions(this.#book, atMs - REMEMBER_MS, this.#rows)
    this.#write(atMs)
  }

  #write(nowMs: number): void {
    const book = this.#book
    // An alarm is a row as well: for what is charged all the time, there is one for each lifetime.
    if (book.alarmAtMs < nowMs - LATE_ALARM_MS) book.alarmAtMs = Math.max(this.#endsAtMs + 1, nowMs + LEAST_REST_MS)
    writeBook(this.#book, this.#rows)
  }
}

/**
 * What a rule says. A refusal leads to no block if it would be none without what may be given back at any moment.
 * @param returnable units of that
 */
function voteWithin(
  returnable: number,
  rule: Rule,
  asked: Parameters<typeof voteOf>[1],
  state: unknown,
  nowUs: number,
) {
  const vote = voteOf(rule, asked, state, nowUs)
  const wanted = rule.cost * (asked.mode === 'partial' ? 1 : asked.permits)
  if (!vote.changed || vote.usage.some(({ remaining }) => remaining + returnable < wanted)) return vote
  const { block: _, ...unblocked } = rule
  return voteOf(unblocked, asked, state, nowUs)
}

/** How old a reservation is when its siblings are asked. */
function askedAfterMs({ siblings, isGranted, isCertain }: Open): number {
  if (isCertain || siblings.length === 0) return Number.POSITIVE_INFINITY
  return isGranted ? ASK_AGAIN_AFTER_MS : ASK_AFTER_MS
}

function takeOffSlots(held: ConcurrencyState | undefined, slot: number, units: number): void {
  const own = held?.slots.get(slot)
  if (!held || !own || own.deadlineMs < 0) return
  if (own.units <= units) releaseSlot(held, slot)
  else held.slots.set(slot, { ...own, units: own.units - units })
}

function essential({ algorithm, tiers, burst }: Rule): Step['rule'] {
  return { algorithm, tiers, ...(burst !== undefined && { burst }) }
}
