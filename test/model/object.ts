import { deserialize, serialize } from 'node:v8'
import type { Book } from '../../src/store/durable-object/book.ts'
import { LimitMachine } from '../../src/store/durable-object/limit-machine.ts'
import type { Closing, ObjectVote, Reservation } from '../../src/store/durable-object/messages.ts'
import type { Row, Rows } from '../../src/store/durable-object/rows.ts'

/** A number that stands for what an object knows and what it has written. */
export type ObjectState = number

export type ObjectCall =
  | { readonly kind: 'reserve'; readonly reservation: Reservation }
  | { readonly kind: 'close'; readonly closing: Closing }
  | { readonly kind: 'inquire'; readonly id: number }
  | { readonly kind: 'overdue' }
  | { readonly kind: 'learn'; readonly id: number; readonly areGranted: boolean }
  /** It loses what it has not written. */
  | { readonly kind: 'crash' }

/** Faults of the protocol that an exploration must find. */
export type PlantedBug = 'counts late' | 'forgets what it granted'

export interface Outcome {
  readonly state: ObjectState
  readonly answer: unknown
}

class PlainRows implements Rows {
  readonly rows: Map<string, Row>

  constructor(rows: readonly Row[]) {
    this.rows = new Map(rows.map((row) => [`${row.kind} ${row.n}`, row]))
  }

  all(): Row[] {
    return [...this.rows.values()]
  }

  put(kind: number, n: number, body: string): void {
    this.rows.set(`${kind} ${n}`, { kind, n, body })
  }

  delete(kind: number, n: number): void {
    this.rows.delete(`${kind} ${n}`)
  }
}

interface Stored {
  readonly rows: readonly Row[]
  readonly book: Book
}

/** The code of an object, as a function from one state to the next. What it has answered once it remembers. */
export class ObjectCode {
  readonly #bug: PlantedBug | undefined
  readonly #stored: Buffer[] = []
  readonly #books: Book[] = []
  readonly #numbers = new Map<string, ObjectState>()
  readonly #outcomes = new Map<string, Outcome>()

  constructor(bug?: PlantedBug) {
    this.#bug = bug
  }

  /** One that was never asked. */
  get fresh(): ObjectState {
    const rows = new PlainRows([])
    return this.#numberOf(rows, new LimitMachine(rows).book)
  }

  run(state: ObjectState, call: ObjectCall, nowUs: number): Outcome {
    const name = `${state} ${nowUs} ${JSON.stringify(call)}`
    let outcome = this.#outcomes.get(name)
    if (!outcome) {
      outcome = this.#run(state, call, nowUs)
      this.#outcomes.set(name, outcome)
    }
    return outcome
  }

  bookOf(state: ObjectState): Book {
    const book = this.#books[state] ?? this.#read(state).book
    this.#books[state] = book
    return book
  }

  #run(state: ObjectState, call: ObjectCall, nowUs: number): Outcome {
    const { rows: written, book } = this.#read(state)
    const rows = new PlainRows(written)
    const machine = call.kind === 'crash' ? new LimitMachine(rows) : new LimitMachine(rows, book)
    const answer = this.#carryOut(machine, call, nowUs)
    return { state: this.#numberOf(rows, machine.book), answer }
  }

  #carryOut(machine: LimitMachine, call: ObjectCall, nowUs: number): unknown {
    switch (call.kind) {
      case 'reserve':
        return this.#bug === 'counts late'
          ? promise(machine, call.reservation, nowUs)
          : machine.reserve(call.reservation, nowUs)
      case 'close': {
        const stands = machine.close(call.closing, nowUs)
        if (this.#bug === 'forgets what it granted') machine.book.decisions.delete(call.closing.id)
        return stands
      }
      case 'inquire':
        return machine.inquire(call.id, nowUs)
      case 'overdue':
        return machine.overdue(nowUs)
      case 'learn':
        return machine.learn(call.id, call.areGranted, nowUs)
      case 'crash':
        return undefined
    }
  }

  #read(state: ObjectState): Stored {
    return deserialize(this.#stored[state] as Buffer)
  }

  #numberOf(rows: PlainRows, book: Book): ObjectState {
    const stored = serialize({ rows: rows.all(), book } satisfies Stored)
    const text = JSON.stringify({ rows: rows.all(), book }, (_, value) => (value instanceof Map ? [...value] : value))
    let number = this.#numbers.get(text)
    if (number === undefined) {
      number = this.#stored.push(stored) - 1
      this.#numbers.set(text, number)
    }
    return number
  }
}

/** Says that it charges, and does nothing of the kind: it would have to be asked again when all have agreed. */
function promise(machine: LimitMachine, reservation: Reservation, nowUs: number): ObjectVote {
  const vote = machine.reserve({ ...reservation, mode: 'peek' }, nowUs) as ObjectVote
  return { ...vote, charged: vote.chargeable >= reservation.permits ? reservation.permits : 0 }
}
