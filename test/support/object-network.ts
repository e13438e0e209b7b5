import type { Decision, DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import type { Release } from '../../src/core/model/store.ts'
import { DurableObjectStore } from '../../src/core/store/durable-object/durable-object-store.ts'
import { LimitMachine } from '../../src/core/store/durable-object/limit-machine.ts'
import type {
  CommitOrAbort,
  ObjectCorrection,
  ObjectVote,
  PreparedCharge,
  RemoteObjects,
} from '../../src/core/store/durable-object/objects.ts'
import type { ObjectRow, Rows } from '../../src/core/store/durable-object/rows.ts'
import { callContext } from './call-context.ts'
import { take } from './charges.ts'
import { findHeldUnits, findMarks } from './memory-script.ts'

/** Rows in memory, and how often they were written. */
export class MemoryRows implements Rows {
  written = 0
  readonly #rows: Map<string, ObjectRow>

  constructor(rows: readonly ObjectRow[] = []) {
    this.#rows = new Map(rows.map((row) => [`${row.kind} ${row.n}`, row]))
  }

  list(): ObjectRow[] {
    return [...this.#rows.values()].toSorted((a, b) => a.kind - b.kind || a.n - b.n)
  }

  get(kind: number, n: number): string | undefined {
    return this.#rows.get(`${kind} ${n}`)?.body
  }

  put(kind: number, n: number, body: string): void {
    this.written++
    this.#rows.set(`${kind} ${n}`, { kind, n, body })
  }

  delete(kind: number, n: number): void {
    this.written++
    this.#rows.delete(`${kind} ${n}`)
  }

  get size(): number {
    return this.#rows.size
  }
}

/** Holds refusals back as an object does, until a test says that the wait is over. */
export class Waiting {
  readonly #machine: LimitMachine
  readonly #reservations: Set<PreparedCharge>

  /** @param reservations those that wait already, in the order of their arrival */
  constructor(machine: LimitMachine, reservations: readonly PreparedCharge[] = []) {
    this.#machine = machine
    this.#reservations = new Set(reservations)
  }

  get reservations(): readonly PreparedCharge[] {
    return [...this.#reservations]
  }

  /** @returns undefined if it waits */
  reserve(reservation: PreparedCharge, nowUs: number): ObjectVote | undefined {
    const vote = this.#machine.reserve(reservation, nowUs)
    if (this.#machine.findPatienceMs(reservation, vote, this.#reservations) <= 0) return vote
    this.#reservations.add(reservation)
    return undefined
  }

  /** Decides again. @returns those that wait no longer */
  answers(
    nowUs: number,
    mayWait: (reservation: PreparedCharge) => boolean = () => true,
  ): { readonly reservation: PreparedCharge; readonly vote: ObjectVote }[] {
    return this.reservations.flatMap((reservation) => {
      const vote = this.reserve(reservation, nowUs)
      if (vote === undefined && mayWait(reservation)) return []
      this.#reservations.delete(reservation)
      return [{ reservation, vote: vote ?? this.#machine.reserve(reservation, nowUs) }]
    })
  }
}

/** Objects in this process, at a time of the test's choosing. */
export class ObjectNetwork implements RemoteObjects {
  nowUs = 0
  readonly #rows = new Map<string, MemoryRows>()
  readonly #machines = new Map<string, LimitMachine>()
  readonly #waiting = new WeakMap<LimitMachine, Waiting>()
  readonly #held = new Map<PreparedCharge, (vote: ObjectVote) => void>()
  readonly #mostOpen: number | undefined

  /** @param mostOpen reservations that each object has open at most */
  constructor(mostOpen?: number) {
    this.#mostOpen = mostOpen
  }

  reserve(key: string, reservation: PreparedCharge): Promise<ObjectVote> {
    return this.#change(key, (machine) => {
      const own = structuredClone(reservation)
      return this.#waitingAt(machine).reserve(own, this.nowUs) ?? this.#later(machine, own)
    })
  }

  close(key: string, closing: CommitOrAbort): Promise<boolean> {
    return this.#change(key, (machine) => machine.close(closing, this.nowUs))
  }

  inquire(key: string, id: number): Promise<boolean> {
    return this.#change(key, (machine) => machine.inquire(id, this.nowUs))
  }

  correct(key: string, corrections: readonly ObjectCorrection[]): Promise<void> {
    return this.#change(key, (machine) => machine.correct(corrections, this.nowUs))
  }

  async #change<T>(key: string, change: (machine: LimitMachine) => T): Promise<Awaited<T>> {
    const machine = this.machine(key)
    const result = change(machine)
    this.#answer(machine)
    return await result
  }

  /** Waits until nothing else happens: the clock stands still. */
  #later(machine: LimitMachine, reservation: PreparedCharge): Promise<ObjectVote> {
    return new Promise((resolve) => {
      this.#held.set(reservation, resolve)
      setImmediate(() => this.#answer(machine, (waiting) => waiting !== reservation))
    })
  }

  #answer(machine: LimitMachine, mayWait?: (reservation: PreparedCharge) => boolean): void {
    for (const { reservation, vote } of this.#waitingAt(machine).answers(this.nowUs, mayWait)) {
      this.#held.get(reservation)?.(vote)
      this.#held.delete(reservation)
    }
  }

  #waitingAt(machine: LimitMachine): Waiting {
    const waiting = this.#waiting.get(machine) ?? new Waiting(machine)
    this.#waiting.set(machine, waiting)
    return waiting
  }

  machine(key: string): LimitMachine {
    let machine = this.#machines.get(key)
    if (!machine) {
      machine = new LimitMachine(this.rows(key), undefined, this.#mostOpen)
      this.#machines.set(key, machine)
    }
    return machine
  }

  rows(key: string): MemoryRows {
    let rows = this.#rows.get(key)
    if (!rows) {
      rows = new MemoryRows()
      this.#rows.set(key, rows)
    }
    return rows
  }

  /**
   * Objects lose what they have not written.
   * @param mayLoseEnds also those that have not written how a decision ended, and may thus still give back what stays
   */
  restart(mayLoseEnds: boolean): void {
    for (const key of this.#machines.keys()) {
      if (mayLoseEnds || new LimitMachine(this.rows(key)).state.open.size === 0) this.#machines.delete(key)
    }
  }
}

/** The store over Durable Objects, asked as the script in Redis is. Its objects restart again and again. */
export class ObjectScript {
  readonly network = new ObjectNetwork()
  readonly #store = new DurableObjectStore({ objects: this.network, timeoutMs: 60_000 })
  readonly #restartsAfter: number
  readonly #mayLoseEnds: boolean
  #decided = 0

  /**
   * @param restartsAfter decisions, counted over all objects
   * @param mayLoseEnds whether a refusal after that may be told to be provisional although nobody else asks
   */
  constructor(restartsAfter = 3, mayLoseEnds = false) {
    this.#restartsAfter = restartsAfter
    this.#mayLoseEnds = mayLoseEnds
  }

  /** @param nowUs microseconds since the Unix epoch */
  async decide(request: DecisionRequest, nowUs: number): Promise<Decision> {
    if (++this.#decided % this.#restartsAfter === 0) this.network.restart(this.#mayLoseEnds)
    this.network.nowUs = nowUs
    const background: Promise<unknown>[] = []
    const decision = await this.#store.decide(request, callContext(background))
    await Promise.all(background)
    return decision
  }

  /** By all that it has stored, expired or not. */
  async peek(request: DecisionRequest, nowUs: number): Promise<Decision> {
    const states = request.charges.map(({ key }) => this.network.machine(key).state)
    const kept = states.map(({ kept }) => kept)
    for (const state of states) state.kept = { ...state.kept, expiresAtMs: Number.POSITIVE_INFINITY }
    this.network.nowUs = nowUs
    const decision = await this.#store.decide({ ...request, action: 'peek' }, callContext())
    states.forEach((state, index) => {
      state.kept = kept[index] as (typeof state)['kept']
    })
    return decision
  }

  revoke(releases: readonly Release[], nowUs: number): Promise<void> {
    this.network.nowUs = nowUs
    return this.#store.revoke(releases)
  }

  renew(charges: readonly StoreCharge[], nowUs: number): Promise<void> {
    this.network.nowUs = nowUs
    return this.#store.renew(charges)
  }

  async heldUnits({ key }: StoreCharge, nowUs: number): Promise<ReadonlyMap<number, number>> {
    return findHeldUnits(this.network.machine(key).state.kept.state, nowUs)
  }

  async marks({ key }: StoreCharge): Promise<number> {
    return findMarks(this.network.machine(key).state.kept.state)
  }

  /** What is told now and later: what is taken back may leave it in another form. */
  async kept(charges: readonly StoreCharge[], nowUs: number): Promise<unknown> {
    const moments = [0, 10, 1_000].map((ms) => nowUs + ms * 1000)
    const peeks: Decision[] = []
    for (const us of moments) for (const charge of charges) peeks.push(await this.peek(take([charge]), us))
    return peeks
  }

  expiresAtMs(key: string): number {
    const { state, expiresAtMs } = this.network.machine(key).state.kept
    return state === undefined ? Number.NEGATIVE_INFINITY : expiresAtMs
  }
}
