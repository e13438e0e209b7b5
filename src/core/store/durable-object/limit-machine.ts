/**
 * The part of an object in a decision over several objects. Each charges in advance, and keeps the charge open until it
 * hears whether the whole was granted. If it hears nothing, it asks its siblings: what one of them has not granted is
 * taken back. So no crash and no lost message leaves a limit exceeded, nor a unit charged for nothing.
 *
 *     decider                        object A                 object B
 *        ├── reserve ──────────────────▶ unknown → reserved      │
 *        ├── reserve ───────────────────────────────────────────▶ unknown → reserved
 *        ◀────────────── vote: charged ──┤                       │
 *        ◀───────────────────────────────────── vote: charged ───┤
 *     granted: the caller is answered    │                       │
 *        ├── close: permits stay ──────▶ reserved → granted      │
 *        └── close: permits stay ──── lost ✗                     │
 *                                        │          5 s later: overdue, so it asks
 *                                        ◀───── inquire ─────────┤
 *                                        ├───── granted ────────▶ reserved, and asks again
 *                                        │          30 s later: reserved → granted
 *
 * If B refuses instead, A is told to close with 0 permits: reserved → void. If that is lost, too, A asks B, which answers
 * that it has not granted the decision, and never does so later: unknown → void.
 */
import { Ledger } from './ledger.ts'
import type { MachineState, Open } from './machine-state.ts'
import type { CommitOrAbort, ObjectCorrection, ObjectDatabase, ObjectVote, PreparedCharge } from './objects.ts'
import { type Rows, SqlRows } from './rows.ts'
import { loadState } from './stored-state.ts'
import { evaluateVote, findPatienceMs } from './vote.ts'

/**
 * The siblings are asked about an open charge after this, and again until one has not granted it: a cancel may be on its
 * way to them.
 */
export const ASK_AFTER_MS = 5_000
/** No sibling is asked after this: what is not known to be void by then stays charged. */
export const ASK_UNTIL_MS = 30_000
/** They are part of the row that each change writes. */
const MAX_OPEN = 1_000

/** How a decision stands at this object. */
type Standing =
  /** Never heard of, or forgotten; granted, as far as is known here; or given up, so that it never will be granted. */
  | { readonly kind: 'unknown' | 'granted' | 'void' }
  /** Charged in advance; unconfirmed for a new identity, for which nobody is admitted before this object has heard so. */
  | { readonly kind: 'reserved' | 'unconfirmed'; readonly open: Open }

type StandingKind = Standing['kind']
type Message = 'reserve' | 'keep' | 'part' | 'cancel' | 'inquire' | 'deny' | 'overdue' | 'expire'

/** How a decision stands after each message. */
// biome-ignore format: a table
const NEXT = {
  /** Only what is unknown is charged, and is unconfirmed at first for a new identity. */
  reserve: { unknown: 'reserved', unconfirmed: 'unconfirmed', reserved: 'reserved', granted: 'granted', void: 'void' },
  /** The decider says what stays. For a new identity that comes twice: it may still wait for another such object. */
  keep:    { unknown: 'void',     unconfirmed: 'reserved',    reserved: 'granted',  granted: 'granted', void: 'void' },
  /** The decider says what stays at most: another end follows. */
  part:    { unknown: 'void',     unconfirmed: 'reserved',    reserved: 'reserved', granted: 'granted', void: 'void' },
  /** The decider gives up. If this overtakes the reservation, that must not be charged when it comes. */
  cancel:  { unknown: 'void',     unconfirmed: 'void',        reserved: 'void',     granted: 'granted', void: 'void' },
  /** A sibling asks. */
  inquire: { unknown: 'void',     unconfirmed: 'void',        reserved: 'reserved', granted: 'granted', void: 'void' },
  /** A sibling answers that it has not granted it. */
  deny:    { unknown: 'unknown',  unconfirmed: 'void',        reserved: 'void',     granted: 'granted', void: 'void' },
  /** No end has come for so long that siblings are to be asked … */
  overdue: { unknown: 'unknown',  unconfirmed: 'void',        reserved: 'reserved', granted: 'granted', void: 'void' },
  /** … and for so long that they no longer are. */
  expire:  { unknown: 'unknown',  unconfirmed: 'void',        reserved: 'granted',  granted: 'granted', void: 'void' },
} as const satisfies Record<Message, Record<StandingKind, StandingKind>>

export function openMachine(sql: ObjectDatabase): LimitMachine {
  return new LimitMachine(new SqlRows(sql))
}

/**
 * The protocol, which docs/how-stores-work.md describes. No I/O, and no clock: each call gets the time, and puts what
 * must last into rows before it returns.
 */
export class LimitMachine {
  readonly #ledger: Ledger
  readonly #maxOpen: number

  /** @param state was read from these rows, and has changed since */
  constructor(rows: Rows, state = loadState(rows), maxOpen = MAX_OPEN) {
    this.#ledger = new Ledger(rows, state)
    this.#maxOpen = maxOpen
  }

  get state(): MachineState {
    return this.#ledger.state
  }

  reserve(reservation: PreparedCharge, readUs: number): ObjectVote {
    const { charge, shared } = reservation
    const ledger = this.#ledger
    ledger.readClock(readUs)
    const { vote, changed, permits } = evaluateVote(reservation, ledger)
    const kind = shared ? this.#findStanding(shared.id).kind : 'unknown'
    // It has come twice, or after its end: nobody waits for this answer then.
    if (NEXT.reserve[kind] === kind) return { ...vote, isProvisional: false, isVoid: true }
    if (changed) {
      ledger.commit({ charge, units: 0, penalty: changed, isOpen: false })
      ledger.write()
    }
    if (permits === 0) return vote
    // Without an open charge, it could not be taken back.
    if (shared && this.state.open.size >= this.#maxOpen) return { ...vote, isVoid: true }
    return { ...vote, charged: permits, forfeited: ledger.charge(reservation, permits, vote.isNew) }
  }

  /** @returns milliseconds for which a refusal is worth holding back */
  findPatienceMs(reservation: PreparedCharge, vote: ObjectVote, waiting: ReadonlySet<PreparedCharge>): number {
    return findPatienceMs(reservation, vote, waiting, this.#ledger)
  }

  /** A timer has run out: it is so late at least, whatever the clock will show. */
  reach(us: number): void {
    this.#ledger.reach(us)
  }

  /** @returns whether the charge stands, as far as is known here */
  close({ id, permits, isPartial }: CommitOrAbort, readUs: number): boolean {
    this.#ledger.readClock(readUs)
    return isGranted(this.#move(id, permits === 0 ? 'cancel' : isPartial ? 'part' : 'keep', permits))
  }

  /** A sibling asks about a decision. @returns whether it was granted here; if not, it never will be */
  inquire(id: number, readUs: number): boolean {
    this.#ledger.readClock(readUs)
    return isGranted(this.#move(id, 'inquire'))
  }

  /** Settles what it can without its siblings. @returns the decisions to ask them about */
  settleOverdue(readUs: number): (readonly [id: number, siblings: readonly string[]])[] {
    this.#ledger.readClock(readUs)
    const due: (readonly [number, readonly string[]])[] = []
    for (const [id, open] of this.state.open) {
      const ageMs = this.#ledger.findAgeMs(open)
      if (ageMs < ASK_AFTER_MS) continue
      const next = this.#move(id, ageMs > ASK_UNTIL_MS ? 'expire' : 'overdue')
      if (next === 'reserved' && open.siblings.length > 0) due.push([id, open.siblings])
    }
    return due
  }

  /** A sibling has answered that it has not granted a decision. */
  void(id: number, readUs: number): void {
    this.#ledger.readClock(readUs)
    const open = this.state.open.get(id)
    // The answer may come late.
    if (open && this.#ledger.findAgeMs(open) <= ASK_UNTIL_MS) this.#move(id, 'deny')
  }

  correct(corrections: readonly ObjectCorrection[], readUs: number): void {
    for (const correction of corrections) {
      this.#ledger.readClock(readUs)
      this.#ledger.correct(correction)
    }
  }

  /** Sets a new alarm. @returns false if nothing matters any more */
  rearm(readUs: number): boolean {
    this.#ledger.readClock(readUs)
    return this.#ledger.rearm()
  }

  #findStanding(id: number): Standing {
    const open = this.state.open.get(id)
    return open ? { kind: open.isNew ? 'unconfirmed' : 'reserved', open } : { kind: this.#ledger.findEnd(id) }
  }

  /** @param permits that stay of an open charge, unless it becomes void. @returns how the decision stands now */
  #move(id: number, message: Message, permits?: number): StandingKind {
    const ledger = this.#ledger
    const standing = this.#findStanding(id)
    const next = NEXT[message][standing.kind]
    if (!('open' in standing)) {
      if (next !== standing.kind) ledger.remember(id, 'void')
      return next
    }
    const { open } = standing
    const staying = next === 'void' ? 0 : (permits ?? open.permits)
    const isChanged = staying < open.permits || open.isNew
    if (staying < open.permits) ledger.takeBack(open, staying)
    if (next !== 'reserved') this.state.open.delete(id)
    else if (isChanged) this.state.open.set(id, { ...open, permits: staying, isNew: false })
    if (next === 'granted') {
      // Later, others may need what this one does not.
      if (message === 'keep') ledger.trim(open)
      ledger.keep(open)
    }
    // That it stays need not be written: it would be asked about once more, at worst. A new identity's would lapse.
    if (next === 'void') ledger.remember(id, 'void')
    else if (isChanged) ledger.write()
    return next
  }
}

function isGranted(kind: StandingKind): boolean {
  return kind === 'granted' || kind === 'reserved'
}
