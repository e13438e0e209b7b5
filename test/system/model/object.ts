import { deepStrictEqual } from 'node:assert/strict'
import { deserialize, serialize } from 'node:v8'
import { ALGORITHMS } from '../../../src/core/algorithms/algorithm-table.ts'
import { detectsNewIdentities } from '../../../src/core/algorithms/decide.ts'
import { WindowLog } from '../../../src/core/algorithms/window-log.ts'
import type { StoreCharge } from '../../../src/core/model/charge.ts'
import { LimitMachine } from '../../../src/core/store/durable-object/limit-machine.ts'
import type { MachineState } from '../../../src/core/store/durable-object/machine-state.ts'
import type { ObjectVote, PreparedCharge } from '../../../src/core/store/durable-object/objects.ts'
import type { ObjectRow } from '../../../src/core/store/durable-object/rows.ts'
import { MemoryRows, Waiting } from '../../support/object-network.ts'
import { Numbered } from './numbered.ts'

/** What an object can be told, each about one decider. `overdue` and `crash` are about none: its number is then 0. */
export const CALLS = [
  'first',
  'second',
  'look',
  'keep',
  'cancel',
  'inquire',
  'void',
  /** One that waits has waited too long. */
  'refuse',
  'overdue',
  /** It loses what it has not written. */
  'crash',
] as const
export type CallKind = (typeof CALLS)[number]
/** Those that ask for a charge, or for how it stands. */
export type Round = 'first' | 'second' | 'look'

/** Faults of the protocol that an exploration must find. */
export type PlantedBug = 'counts late' | 'drops what it granted' | 'admits those who have waited'

/** New names of deciders, by the old ones. Both count from 0. */
export type Names = readonly number[]

/** What of a vote decides anything. */
export type PlainVote = Pick<ObjectVote, 'fitting' | 'chargeable' | 'charged' | 'isNew' | 'isVoid'>

export interface Outcome {
  readonly state: number
  /** Of a reservation; undefined if it waits. */
  readonly vote?: PlainVote | undefined
  /** Whether what was reserved stands, or was granted. */
  readonly isGranted?: boolean
  /** Deciders whose reservations are to be asked about. */
  readonly requested?: readonly number[]
  /** Deciders that have waited and are answered now; without a vote if the object has crashed. */
  readonly released: readonly { readonly decider: number; readonly vote?: PlainVote }[]
}

/** What matters of an object: the same of objects that answer alike whatever comes. Deciders are counted from 0. */
interface Normal {
  readonly memory: Knowledge
  /** What a crash leaves; missing where there is none any more. */
  readonly written?: Knowledge
  readonly waiting: readonly (readonly [decider: number, request: Round])[]
}

interface Knowledge {
  /** Tick of the last charge. */
  readonly clock: number
  readonly used: number
  readonly isMissing: boolean
  readonly open: readonly (readonly [decider: number, tick: number, permits: number, isNew: boolean])[]
  readonly decided: readonly (readonly [decider: number, permits: number])[]
}

/** Facts about a state, each a bit for each decider. */
export interface Facts {
  readonly used: number
  readonly granted: number
  readonly void: number
  readonly open: number
  readonly waiting: number
}

interface Stored {
  readonly rows: readonly ObjectRow[]
  readonly memory: MachineState
  readonly waiting: readonly PreparedCharge[]
  readonly mayCrash: boolean
}

/** Nobody is refused by the clock alone: that a wait is over is a call of its own, at any moment. */
export const PATIENCE_MS = 1e12

/**
 * The code of one object, as a function from one state to the next. States are numbers; what has been answered once is
 * remembered. A state that is another one with other names for the deciders is told from that one.
 */
export class ObjectCode {
  readonly #charge: StoreCharge
  readonly #names: readonly Names[]
  readonly #ticksUs: readonly number[]
  readonly #bug: PlantedBug | undefined
  /** As decider 0 sends them. */
  readonly #reservations = new Map<Round, PreparedCharge>()
  readonly #normals = new Numbered<Normal>()
  /** By the number of a state. */
  readonly #stored: (Buffer | undefined)[] = []
  /** Another one that is taken for the same: it must answer alike. */
  readonly #others: (Buffer | undefined)[] = []
  readonly #renamedFrom: ({ readonly state: number; readonly way: number } | undefined)[] = []
  readonly #facts: Facts[] = []
  readonly #outcomes = new Map<number, Outcome>()
  /** By the place of the names, and by state. */
  readonly #renamed: readonly (number | undefined)[][]
  readonly #unwritten: number[] = []

  /** @param names all ways to name the deciders: new names by the old ones */
  constructor(charge: StoreCharge, names: readonly Names[], ticksUs: readonly number[], bug: PlantedBug | undefined) {
    this.#charge = charge
    this.#names = names
    this.#renamed = names.map(() => [])
    this.#ticksUs = ticksUs
    this.#bug = bug
  }

  get #startUs(): number {
    return this.#ticksUs[0] as number
  }

  /** @returns the number of one that was never asked */
  fresh(mayCrash: boolean): number {
    const rows = new MemoryRows()
    return this.#findNumber(rows, new LimitMachine(rows), [], mayCrash)
  }

  /** Tells what is sent in a call. */
  teach(request: Round, reservation: PreparedCharge): void {
    if (!this.#reservations.has(request)) this.#reservations.set(request, reservation)
  }

  run(state: number, kind: CallKind, decider: number, tick: number): Outcome {
    const name = ((state * 4 + tick) * 8 + decider) * 16 + CALLS.indexOf(kind)
    let outcome = this.#outcomes.get(name)
    if (!outcome) {
      outcome = this.#run(state, kind, decider, tick)
      this.#outcomes.set(name, outcome)
    }
    return outcome
  }

  /** The same with other names for the deciders. @param way place of the names among all ways */
  renamed(state: number, way: number): number {
    const known = this.#renamed[way] as (number | undefined)[]
    let number = known[state]
    if (number === undefined) {
      number = this.#rename(state, way)
      known[state] = number
    }
    return number
  }

  /** The same where no crash will come: what is written does not matter. */
  withoutRows(state: number): number {
    let number = this.#unwritten[state]
    if (number === undefined) {
      const origin = this.#stored[state] ? undefined : this.#renamedFrom[state]
      if (origin) number = this.renamed(this.withoutRows(origin.state), origin.way)
      else {
        const { memory, waiting }: Stored = deserialize(this.#stored[state] as Buffer)
        const rows = new MemoryRows()
        number = this.#findNumber(rows, new LimitMachine(rows, memory), waiting, false)
      }
      this.#unwritten[state] = number
    }
    return number
  }

  findFacts(state: number): Facts {
    let facts = this.#facts[state]
    if (!facts) {
      const { memory, waiting } = this.#normals.get(state)
      const bits = (deciders: readonly number[]) => deciders.reduce((all, decider) => all | (1 << decider), 0)
      facts = {
        used: memory.used,
        granted: bits(memory.decided.filter(([, permits]) => permits > 0).map(([decider]) => decider)),
        void: bits(memory.decided.filter(([, permits]) => permits === 0).map(([decider]) => decider)),
        open: bits(memory.open.map(([decider]) => decider)),
        waiting: bits(waiting.map(([decider]) => decider)),
      }
      this.#facts[state] = facts
    }
    return facts
  }

  #run(state: number, kind: CallKind, decider: number, tick: number): Outcome {
    const origin = this.#renamedFrom[state]
    const stored = this.#stored[state]
    if (stored) {
      const outcome = this.#runStored(stored, kind, decider, tick)
      const other = this.#others[state]
      if (other) deepStrictEqual(this.#runStored(other, kind, decider, tick), outcome)
      return outcome
    }
    if (!origin) throw new Error(`there is no object ${state}`)
    const { way } = origin
    const names = this.#names[way] as Names
    const outcome = this.run(origin.state, kind, names.indexOf(decider), tick)
    return {
      ...outcome,
      state: this.renamed(outcome.state, way),
      released: outcome.released.map((released) => ({ ...released, decider: names[released.decider] as number })),
      ...(outcome.requested && { requested: outcome.requested.map((requested) => names[requested] as number) }),
    }
  }

  #runStored(stored: Buffer, kind: CallKind, decider: number, tick: number): Outcome {
    const { rows: written, memory, waiting, mayCrash }: Stored = deserialize(stored)
    const rows = new MemoryRows(written)
    const nowUs = this.#ticksUs[tick] as number
    if (kind === 'crash') {
      const released = waiting.map((reservation) => ({ decider: findDecider(reservation) }))
      return { state: this.#findNumber(rows, new LimitMachine(rows), [], mayCrash), released }
    }
    const machine = new LimitMachine(rows, revive(memory))
    const queue = new Waiting(machine, waiting)
    const reported = this.#tell(machine, queue, kind, decider, nowUs)
    const mayWait =
      kind === 'refuse' ? (reservation: PreparedCharge) => findDecider(reservation) !== decider : undefined
    const released = queue.answers(nowUs, mayWait).map(({ reservation, vote }) => {
      const isWrong = this.#bug === 'admits those who have waited'
      const reported = isWrong ? { ...vote, fitting: 1, chargeable: 1, charged: 1 } : vote
      return { decider: findDecider(reservation), vote: plain(reported) }
    })
    return { ...reported, state: this.#findNumber(rows, machine, queue.reservations, mayCrash), released }
  }

  #tell(machine: LimitMachine, queue: Waiting, kind: CallKind, decider: number, nowUs: number): Partial<Outcome> {
    const id = decider + 1
    switch (kind) {
      case 'first':
      case 'second':
      case 'look': {
        const vote = this.#reserve(machine, queue, this.#reservation(kind, decider), nowUs)
        return { vote: vote && plain(vote) }
      }
      case 'keep':
      case 'cancel': {
        const isGranted = machine.close({ id, permits: kind === 'keep' ? 1 : 0 }, nowUs)
        if (this.#bug === 'drops what it granted') machine.state.decisions.delete(id)
        return { isGranted }
      }
      case 'inquire':
        return { isGranted: machine.inquire(id, nowUs) }
      case 'void':
        machine.void(id, nowUs)
        return {}
      case 'overdue':
        // All at once: their order is no matter.
        return {
          requested: machine
            .settleOverdue(nowUs)
            .map(([id]) => id - 1)
            .toSorted((a, b) => a - b),
        }
      default:
        return {}
    }
  }

  #reserve(machine: LimitMachine, queue: Waiting, reservation: PreparedCharge, nowUs: number): ObjectVote | undefined {
    if (this.#bug !== 'counts late') return queue.reserve(reservation, nowUs)
    // It says that it charges, and does nothing of the kind: it would have to be asked again when all have agreed.
    const vote = machine.reserve({ ...reservation, action: 'peek' }, nowUs)
    return { ...vote, charged: vote.chargeable >= reservation.permits ? reservation.permits : 0 }
  }

  #reservation(request: Round, decider: number): PreparedCharge {
    const reservation = this.#reservations.get(request) as PreparedCharge
    const { shared } = reservation
    return shared ? { ...reservation, shared: { ...shared, id: decider + 1 } } : reservation
  }

  #rename(state: number, way: number): number {
    const names = this.#names[way] as Names
    const { memory, written, waiting } = this.#normals.get(state)
    const of = (decider: number) => names[decider] as number
    const renameKnown = (known: Knowledge): Knowledge => ({
      ...known,
      open: known.open.map(([id, ...rest]) => [of(id), ...rest] as const).toSorted(byDecider),
      decided: known.decided.map(([id, permits]) => [of(id), permits] as const).toSorted(byDecider),
    })
    const normal = {
      memory: renameKnown(memory),
      ...(written && { written: renameKnown(written) }),
      waiting: waiting.map(([decider, request]) => [of(decider), request] as const),
    }
    const number = this.#normals.findNumber(normal)
    if (!this.#stored[number]) this.#renamedFrom[number] ??= { state, way }
    return number
  }

  #findNumber(
    rows: MemoryRows,
    { state: memory }: LimitMachine,
    waiting: readonly PreparedCharge[],
    mayCrash: boolean,
  ): number {
    const normal = {
      memory: this.#knowledge(memory),
      ...(mayCrash && { written: this.#knowledge(new LimitMachine(rows).state) }),
      waiting: waiting.map((reservation) => [findDecider(reservation), this.#findRound(reservation)] as const),
    }
    const number = this.#normals.findNumber(normal)
    const stored = serialize({ rows: rows.list(), memory, waiting, mayCrash } satisfies Stored)
    this.#stored[number] ??= stored
    if (!this.#stored[number]?.equals(stored)) this.#others[number] ??= stored
    return number
  }

  #knowledge(memory: MachineState): Knowledge {
    const findTick = (ms: number) => this.#ticksUs.indexOf(ms * 1000)
    // A copy, because a look may change how a state is kept.
    const machine = new LimitMachine(new MemoryRows(), revive(structuredClone(memory)))
    const vote = machine.reserve({ action: 'peek', permits: 1, charge: this.#charge }, this.#startUs)
    const open = [...memory.open].map(([id, { atMs, permits, isNew }]) => {
      return [id - 1, findTick(atMs), permits, isNew] as const
    })
    const decided = [...memory.decisions].map(([id, decidedMs]) => [id - 1, decidedMs > 0 ? 1 : 0] as const)
    return {
      clock: findTick(memory.clockUs / 1000),
      used: (this.#charge.limits[0]?.limit ?? 0) - (vote.usage[0]?.remaining ?? 0),
      // A bucket that is full is as good as none.
      isMissing: detectsNewIdentities(this.#charge) && memory.kept.state === undefined,
      open: open.toSorted(byDecider),
      decided: decided.toSorted(byDecider),
    }
  }

  #findRound({ action }: PreparedCharge): Round {
    return action === 'peek' ? 'look' : this.#charge.counts === 'new-identities' ? 'second' : 'first'
  }
}

/** A copy has the numbers of a log, but not what it can do. */
function revive(memory: MachineState): MachineState {
  const { algorithm, kept } = memory
  const isLog = kept.state !== undefined && algorithm && ALGORITHMS[algorithm].isLog
  if (isLog) memory.kept = { ...kept, state: Object.assign(new WindowLog(), kept.state) }
  return memory
}

function plain({ fitting, chargeable, charged, isNew, isVoid }: ObjectVote): PlainVote {
  return { fitting, chargeable, charged, isNew, isVoid }
}

function findDecider({ shared }: PreparedCharge): number {
  return (shared?.id ?? 0) - 1
}

function byDecider(a: readonly [number, ...unknown[]], b: readonly [number, ...unknown[]]): number {
  return a[0] - b[0]
}
