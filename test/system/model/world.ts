import type { StoreCharge } from '../../../src/core/model/charge.ts'
import { ASK_AFTER_MS, ASK_UNTIL_MS } from '../../../src/core/store/durable-object/limit-machine.ts'
import { type Act, DeciderCode, type Sent } from './decider.ts'
import type { Model, State } from './explore.ts'
import { type CallKind, type Facts, type Names, ObjectCode, type Outcome, type PlantedBug } from './object.ts'

const START_MS = 1_700_000_000_000

/** What may go wrong in one run, at most. */
export interface Faults {
  /** Deciders that die. */
  readonly deaths: number
  /** Deciders that wait no longer. */
  readonly timeouts: number
  /** Objects that lose what they have not written. */
  readonly crashes: number
  /** Messages that arrive twice. */
  readonly duplicates: number
}

export interface Scenario {
  readonly deciders: number
  /** One for each object; every decider wants one permit of each. */
  readonly charges: readonly StoreCharge[]
  readonly faults: Faults
  /** What asks arrives before objects ask each other, or never; otherwise it may also arrive between their questions. */
  readonly isRequestedInTime?: boolean
  readonly bug?: PlantedBug
}

/**
 * The time, of which there is none within a tick. From one to the next, what is open becomes overdue, and in the last one
 * it is asked about for the last time.
 */
const TICKS_US = [0, ASK_AFTER_MS + 1_000, ASK_UNTIL_MS - 1_000].map((ms) => (START_MS + ms) * 1000)

/** The first word of a state: the tick, and the faults that may still happen. */
const FAULTS = ['deaths', 'timeouts', 'crashes', 'duplicates'] as const
const FAULT_BITS = 3

/** Messages on their way from one decider to one object: one that asks, those that keep, and those that cancel. */
const REQUESTING = ['first', 'second', 'look'] as const
const FLIGHT_BITS = 6
const ONE_KEEP = 4
const ONE_CANCEL = 16
/** All that end something, to any object. */
const CLOSINGS = 0b111100_111100_111100

/** What one object asks its siblings about one decider: nothing, or the answers so far. */
const ROUND_BITS = 4
const FIRST_ROUND = 1
/** All have granted it: they are asked again when time has gone by. */
const ALL_GRANTED = 15
/** Of each sibling. */
const UNHEARD = 0
const GRANTED = 1
const VOID = 2

/** Deciders that share objects, every message between them, and what may happen to each of these. */
export class World implements Model {
  readonly start: State
  readonly #deciders: number
  readonly #objects: number
  readonly #charges: readonly StoreCharge[]
  readonly #ways: readonly Names[]
  readonly #decider: DeciderCode
  readonly #codes: readonly ObjectCode[]
  readonly #precedesNewIdentities: boolean
  readonly #isReduced: boolean
  readonly #lastTick: number

  /** @param isReduced whether runs are left out that lead to the same as others */
  constructor({ deciders, charges, faults, isRequestedInTime = false, bug }: Scenario, isReduced = true) {
    this.#isReduced = isReduced
    const ticksUs = isRequestedInTime ? TICKS_US.toSpliced(1, 1) : TICKS_US
    this.#lastTick = ticksUs.length - 1
    this.#deciders = deciders
    this.#objects = charges.length
    this.#charges = charges
    this.#precedesNewIdentities = charges.some(({ counts }) => counts === 'new-identities')
    this.#ways = permutations(deciders).slice(0, isReduced ? undefined : 1)
    this.#codes = charges.map((charge) => new ObjectCode(charge, this.#ways, ticksUs, bug))
    this.#decider = new DeciderCode(charges, (object, request, reservation) =>
      this.#codes[object]?.teach(request, reservation),
    )
    const begin = this.#decider.begin()
    const head = FAULTS.reduce((bits, fault, place) => bits | (faults[fault] << (2 + place * FAULT_BITS)), 0)
    const state = [head]
    for (let d = 0; d < deciders; d++) state.push(begin.state, 0)
    for (const code of this.#codes) state.push(code.fresh(faults.crashes > 0), 0)
    for (let d = 0; d < deciders; d++) this.#send(state, d, begin.sent)
    this.start = this.#canonical(state)
  }

  next(state: State): readonly State[] {
    const nexts: State[] = []
    const add = (next: number[]) => this.#settle(next, nexts)
    const tick = (state[0] as number) & 3
    for (let d = 0; d < this.#deciders; d++) {
      const flight = state[this.#flightAt(d)] as number
      for (let o = 0; o < this.#objects; o++) this.#deliverEach(state, d, o, flight >>> (o * FLIGHT_BITS), add)
      const { awaited } = this.#decider.get(state[this.#deciderAt(d)] as number)
      // Whoever waits for nothing has gone on already.
      if (awaited !== 0 && this.#has(state, 'timeouts')) {
        const next = this.#after(state, 'timeouts')
        this.#act(next, d, this.#decider.giveUp(next[this.#deciderAt(d)] as number))
        add(next)
      }
    }
    for (let o = 0; o < this.#objects; o++) {
      const { waiting } = this.#findFacts(state, o)
      for (let d = 0; d < this.#deciders; d++) if (waiting & (1 << d)) add(this.#refuse(state, d, o))
      if (this.#has(state, 'crashes')) add(this.#crash(state, o))
      // Ends that are on their way have all arrived when objects ask for the last time.
      if (tick === this.#lastTick && this.#hasClosings(state)) continue
      if (tick > 0) this.#askAfter(state, o, add)
      this.#inquireEach(state, o, add)
    }
    if (tick < this.#lastTick) this.#wait(state, nexts)
    return nexts
  }

  /** How a run has ended, whatever the deciders are called. */
  describeEnd(state: State): string {
    const deciders = Array.from({ length: this.#deciders }, (_, d) => {
      const { phase } = this.#decider.get(state[this.#deciderAt(d)] as number)
      return [phase, ...this.#codes.map((_, o) => (this.#findFacts(state, o).granted >>> d) & 1)].join()
    })
    return JSON.stringify([deciders.toSorted(), this.#codes.map((_, o) => this.#findFacts(state, o).used)])
  }

  faults(state: State, isOver: boolean): string[] {
    const faults: string[] = []
    const deciders = Array.from({ length: this.#deciders }, (_, d) => {
      return this.#decider.get(state[this.#deciderAt(d)] as number)
    })
    const facts = this.#codes.map((code, o) => code.findFacts(state[this.#objectAt(o)] as number))
    const bits = (isMeant: (d: number) => boolean) => deciders.reduce((all, _, d) => all | (isMeant(d) ? 1 << d : 0), 0)
    const admitted = bits((d) => deciders[d]?.phase === 'admitted')
    const dead = bits((d) => deciders[d]?.phase === 'dead')
    // Of one that died when all had granted, nobody knows.
    const unknown = facts.reduce(
      (all, { granted }, o) => (this.#charges[o]?.counts === 'new-identities' ? all : all & granted),
      dead,
    )
    facts.forEach(({ used, void: voided }, o) => {
      const { limits, counts } = this.#charges[o] as StoreCharge
      const limit = limits[0]?.limit ?? 0
      const requested = counts === 'new-identities' ? bits((d) => (deciders[d]?.votes[o] ?? null) !== null) : -1
      const charged = count(admitted & requested)
      if (charged > limit) faults.push(`object ${o} lets ${charged} through, and its limit is ${limit}`)
      if (admitted & voided) faults.push(`object ${o} took back what was let through`)
      if (used < charged) faults.push(`object ${o} counts ${used} of ${charged} that were let through`)
      if (!isOver) return
      const possible = count(admitted | unknown)
      if (used > possible) faults.push(`object ${o} still counts ${used}, and ${possible} may have been let through`)
    })
    const areOver = deciders.every(({ phase }) => phase === 'admitted' || phase === 'refused' || phase === 'dead')
    if (isOver && !areOver) faults.push('a decider waits for ever')
    return faults
  }

  #deliverEach(state: State, d: number, o: number, flight: number, add: (next: number[]) => void): void {
    const deliver = (kind: Sent['kind'], one: number) => {
      const arrived = [...state]
      arrived[this.#flightAt(d)] = (arrived[this.#flightAt(d)] as number) - one * 2 ** (o * FLIGHT_BITS)
      add(this.#deliver(arrived, d, o, kind))
      if (this.#has(state, 'duplicates')) add(this.#deliver(this.#after(state, 'duplicates'), d, o, kind))
    }
    const request = flight & 3
    if (request > 0) deliver(REQUESTING[request - 1] as Sent['kind'], request)
    if (flight & (3 * ONE_KEEP)) deliver('keep', ONE_KEEP)
    if (flight & (3 * ONE_CANCEL)) deliver('cancel', ONE_CANCEL)
  }

  #deliver(state: number[], d: number, o: number, kind: Sent['kind']): number[] {
    const { vote, isGranted } = this.#run(state, o, kind, d)
    const at = this.#deciderAt(d)
    const decider = state[at] as number
    if (vote) state[at] = this.#decider.hear(decider, o, vote)
    else if (kind === 'keep' && this.#decider.get(decider).phase === 'confirming') {
      if (isGranted) state[at] = this.#decider.acknowledge(decider, o)
      else this.#act(state, d, this.#decider.giveUp(decider))
    }
    return state
  }

  #refuse(state: State, d: number, o: number): number[] {
    const next = [...state]
    this.#run(next, o, 'refuse', d)
    return next
  }

  #crash(state: State, o: number): number[] {
    const next = this.#after(state, 'crashes')
    this.#run(next, o, 'crash', 0)
    next[this.#roundsAt(o)] = 0
    if (!this.#has(next, 'crashes')) {
      for (let each = 0; each < this.#objects; each++) {
        const at = this.#objectAt(each)
        next[at] = (this.#codes[each] as ObjectCode).withoutRows(next[at] as number)
      }
    }
    return next
  }

  #hasClosings(state: State): boolean {
    for (let d = 0; d < this.#deciders; d++) if ((state[this.#flightAt(d)] as number) & CLOSINGS) return true
    return false
  }

  /** An object asks its siblings about all that is overdue. */
  #askAfter(state: State, o: number, add: (next: number[]) => void): void {
    const next = [...state]
    const { requested = [] } = this.#run(next, o, 'overdue', 0)
    const unasked = requested.filter((d) => this.#findRound(state, o, d) === 0)
    if (unasked.length === 0 && next[this.#objectAt(o)] === state[this.#objectAt(o)]) return
    for (const d of unasked) this.#setRound(next, o, d, this.#findAnswer(next, o, d, FIRST_ROUND))
    add(next)
  }

  /** Siblings answer. */
  #inquireEach(state: State, o: number, add: (next: number[]) => void): void {
    for (let d = 0; d < this.#deciders; d++) {
      const round = this.#findRound(state, o, d)
      if (round < FIRST_ROUND || round === ALL_GRANTED) continue
      this.#siblings(o).forEach((sibling, place) => {
        if (digit(round - FIRST_ROUND, place) !== UNHEARD) return
        const next = [...state]
        const { isGranted } = this.#run(next, sibling, 'inquire', d)
        const answer = (isGranted ? GRANTED : VOID) * 3 ** place
        this.#setRound(next, o, d, this.#findAnswer(next, o, d, round + answer))
        add(next)
      })
    }
  }

  /** What an object learns when all have answered. */
  #findAnswer(state: number[], o: number, d: number, round: number): number {
    const answers = this.#siblings(o).map((_, place) => digit(round - FIRST_ROUND, place))
    if (answers.includes(UNHEARD)) return round
    if (!answers.includes(VOID)) return ALL_GRANTED
    this.#run(state, o, 'void', d)
    return 0
  }

  /** Time goes by: much longer than anybody waits at an object. In the end, what asks and has not arrived is lost. */
  #wait(state: State, nexts: State[]): void {
    for (let o = 0; o < this.#objects; o++) {
      const { waiting } = this.#findFacts(state, o)
      if (waiting !== 0) return
    }
    const next = [...state]
    next[0] = (state[0] as number) + 1
    for (let o = 0; o < this.#objects; o++) {
      for (let d = 0; d < this.#deciders; d++) {
        if (this.#findRound(next, o, d) === ALL_GRANTED) this.#setRound(next, o, d, 0)
      }
    }
    if ((next[0] & 3) < this.#lastTick) {
      this.#settle(next, nexts)
      return
    }
    let worlds = [next]
    for (let d = 0; d < this.#deciders; d++) {
      const { phase, awaited } = this.#decider.get(next[this.#deciderAt(d)] as number)
      for (const world of worlds) {
        const at = this.#flightAt(d)
        for (let o = 0; o < this.#objects; o++) world[at] = (world[at] as number) & ~(3 << (o * FLIGHT_BITS))
      }
      // Whoever waits for an answer that will not come gives up.
      if (awaited !== 0 && phase !== 'confirming') {
        worlds = worlds.flatMap((world) =>
          this.#actOrDie(world, d, this.#decider.giveUp(world[this.#deciderAt(d)] as number)),
        )
      }
    }
    for (const world of worlds) this.#settle(world, nexts)
  }

  /**
   * Lets deciders go on that have heard all they asked for. It is no matter when they do: what they send may be late, and
   * they may also give up, or die.
   */
  #settle(state: number[], nexts: State[]): void {
    for (let d = 0; d < this.#deciders; d++) {
      const decider = state[this.#deciderAt(d)] as number
      const { phase, awaited } = this.#decider.get(decider)
      if (awaited !== 0 || phase === 'admitted' || phase === 'refused' || phase === 'dead') continue
      const isLate = ((state[0] as number) & 3) === this.#lastTick
      for (const next of this.#actOrDie(state, d, this.#decider.goOn(decider, isLate))) this.#settle(next, nexts)
      if (this.#has(state, 'timeouts')) {
        const next = this.#after(state, 'timeouts')
        this.#act(next, d, this.#decider.giveUp(decider))
        this.#settle(next, nexts)
      }
      return
    }
    nexts.push(this.#canonical(this.#advance(state)))
  }

  /** A decider that dies has sent some of its messages, and not all. */
  #actOrDie(state: number[], d: number, act: Act): number[][] {
    const acted = [...state]
    this.#act(acted, d, act)
    if (!this.#has(state, 'deaths')) return [acted]
    const worlds = [acted]
    for (let some = 0; some < (1 << act.sent.length) - 1; some++) {
      const next = this.#after(state, 'deaths')
      const { phase } = this.#decider.get(act.state)
      const ended = this.#decider.ended(act.state, phase === 'admitted' ? 'admitted' : 'dead')
      const sent = act.sent.filter((_, place) => some & (1 << place))
      this.#act(next, d, { state: ended, sent })
      worlds.push(next)
    }
    return worlds
  }

  #act(state: number[], d: number, { state: decider, sent }: Act): void {
    state[this.#deciderAt(d)] = decider
    this.#send(state, d, sent)
  }

  #send(state: number[], d: number, sent: readonly Sent[]): void {
    const at = this.#flightAt(d)
    for (const { to, kind } of sent) {
      const one = kind === 'keep' ? ONE_KEEP : kind === 'cancel' ? ONE_CANCEL : REQUESTING.indexOf(kind) + 1
      state[at] = (state[at] as number) + one * 2 ** (to * FLIGHT_BITS)
    }
  }

  /**
   * Carries out at once what leads to the same whatever else happens before it, so that not all of its orders need be
   * visited. With new identities, more depends on the order.
   */
  #advance(state: number[]): number[] {
    if (!this.#isReduced || this.#precedesNewIdentities) return state
    let isOver = false
    while (!isOver) {
      isOver = true
      for (let d = 0; d < this.#deciders; d++) {
        for (let o = 0; o < this.#objects; o++) {
          if (this.#closeEarly(state, d, o) || this.#answerEarly(state, d, o)) isOver = false
        }
      }
    }
    return state
  }

  #closeEarly(state: number[], d: number, o: number): boolean {
    const flight = (state[this.#flightAt(d)] as number) >>> (o * FLIGHT_BITS)
    const isKept = (flight & (3 * ONE_KEEP)) > 0
    const isCancelled = (flight & (3 * ONE_CANCEL)) > 0
    if (!isKept && !isCancelled) return false
    const kind = isKept ? 'keep' : 'cancel'
    // What it knows already changes nothing, now or later. Nor does what nobody will ask for.
    if (
      !this.#isKnown(state, d, o, kind) &&
      (this.#mayBeRequested(state, o) || (isCancelled && this.#mayInquire(state, d, o)))
    ) {
      return false
    }
    const at = this.#flightAt(d)
    state[at] = (state[at] as number) - (isKept ? ONE_KEEP : ONE_CANCEL) * 2 ** (o * FLIGHT_BITS)
    this.#run(state, o, kind, d)
    return true
  }

  #isKnown(state: State, d: number, o: number, kind: 'keep' | 'cancel'): boolean {
    // That it is kept is not written: after a crash it would be told again.
    if (kind === 'keep' && this.#has(state, 'crashes')) return false
    const { granted, void: voided, waiting } = this.#findFacts(state, o)
    if (waiting !== 0 || !((granted | voided) & (1 << d))) return false
    const object = state[this.#objectAt(o)] as number
    return (this.#codes[o] as ObjectCode).run(object, kind, d, (state[0] as number) & 3).state === object
  }

  /** Whether somebody may still ask an object for something. */
  #mayBeRequested(state: State, o: number): boolean {
    if (this.#findFacts(state, o).waiting !== 0) return true
    for (let d = 0; d < this.#deciders; d++) {
      if (((state[this.#flightAt(d)] as number) >>> (o * FLIGHT_BITS)) & 3) return true
    }
    return false
  }

  /** Whether a sibling may still ask an object what became of a decision. */
  #mayInquire(state: State, d: number, o: number): boolean {
    return this.#siblings(o).some((sibling) => {
      const { open, waiting } = this.#findFacts(state, sibling)
      const isRequesting = ((state[this.#flightAt(d)] as number) >>> (sibling * FLIGHT_BITS)) & 3
      const isQueried = ![0, ALL_GRANTED].includes(this.#findRound(state, sibling, d))
      return isRequesting > 0 || ((open | waiting) & (1 << d)) > 0 || isQueried
    })
  }

  /** Answers to what has been settled for ever. */
  #answerEarly(state: number[], d: number, o: number): boolean {
    const round = this.#findRound(state, o, d)
    if (round < FIRST_ROUND || round === ALL_GRANTED) return false
    const siblings = this.#siblings(o)
    const place = siblings.findIndex((sibling, place) => {
      if (digit(round - FIRST_ROUND, place) !== UNHEARD) return false
      const { granted, void: voided } = this.#findFacts(state, sibling)
      return (voided & (1 << d)) > 0 || ((granted & (1 << d)) > 0 && this.#isGrantedForEver(state, d))
    })
    if (place < 0) return false
    const { isGranted } = this.#run(state, siblings[place] as number, 'inquire', d)
    this.#setRound(state, o, d, this.#findAnswer(state, o, d, round + (isGranted ? GRANTED : VOID) * 3 ** place))
    return true
  }

  /** Whether all objects have granted a decision, and nobody will ever cancel it. */
  #isGrantedForEver(state: State, d: number): boolean {
    const { phase } = this.#decider.get(state[this.#deciderAt(d)] as number)
    if (phase !== 'admitted' && phase !== 'dead') return false
    for (let o = 0; o < this.#objects; o++) {
      const isCancelled = ((state[this.#flightAt(d)] as number) >>> (o * FLIGHT_BITS)) & (3 * ONE_CANCEL)
      if (isCancelled || !(this.#findFacts(state, o).granted & (1 << d))) return false
    }
    return true
  }

  #findFacts(state: State, o: number): Facts {
    return (this.#codes[o] as ObjectCode).findFacts(state[this.#objectAt(o)] as number)
  }

  #run(state: number[], o: number, kind: CallKind, d: number): Outcome {
    const at = this.#objectAt(o)
    const outcome = (this.#codes[o] as ObjectCode).run(state[at] as number, kind, d, (state[0] as number) & 3)
    state[at] = outcome.state
    for (const { decider, vote } of outcome.released) {
      const place = this.#deciderAt(decider)
      state[place] = this.#decider.hear(state[place] as number, o, vote)
    }
    return outcome
  }

  /** The first of all states that differ from this one by the names of deciders alone. */
  #canonical(state: number[]): State {
    let first: number[] = state
    for (let way = 1; way < this.#ways.length; way++) {
      const other = this.#renamed(state, way)
      if (isBefore(other, first)) first = other
    }
    return first
  }

  #renamed(state: number[], way: number): number[] {
    const names = this.#ways[way] as Names
    const other = [...state]
    for (let d = 0; d < this.#deciders; d++) {
      const name = names[d] as number
      other[this.#deciderAt(name)] = state[this.#deciderAt(d)] as number
      other[this.#flightAt(name)] = state[this.#flightAt(d)] as number
    }
    for (let o = 0; o < this.#objects; o++) {
      const at = this.#objectAt(o)
      other[at] = (this.#codes[o] as ObjectCode).renamed(state[at] as number, way)
      const rounds = state[this.#roundsAt(o)] as number
      let renamed = 0
      if (rounds !== 0) {
        for (let d = 0; d < this.#deciders; d++) {
          renamed |= ((rounds >>> (d * ROUND_BITS)) & 15) << ((names[d] as number) * ROUND_BITS)
        }
      }
      other[this.#roundsAt(o)] = renamed
    }
    return other
  }

  #siblings(o: number): readonly number[] {
    const isSibling = (charge: StoreCharge, place: number) => place !== o && charge.counts !== 'new-identities'
    return this.#charges.flatMap((charge, place) => (isSibling(charge, place) ? [place] : []))
  }

  #findRound(state: State, o: number, d: number): number {
    return ((state[this.#roundsAt(o)] as number) >>> (d * ROUND_BITS)) & 15
  }

  #setRound(state: number[], o: number, d: number, round: number): void {
    const at = this.#roundsAt(o)
    state[at] = ((state[at] as number) & ~(15 << (d * ROUND_BITS))) | (round << (d * ROUND_BITS))
  }

  #has(state: State, fault: (typeof FAULTS)[number]): boolean {
    return (((state[0] as number) >>> (2 + FAULTS.indexOf(fault) * FAULT_BITS)) & 7) > 0
  }

  /** The same, with a fault less that may still happen. */
  #after(state: State, fault: (typeof FAULTS)[number]): number[] {
    const next = [...state]
    next[0] = (next[0] as number) - (1 << (2 + FAULTS.indexOf(fault) * FAULT_BITS))
    return next
  }

  #deciderAt(d: number): number {
    return 1 + 2 * d
  }

  #flightAt(d: number): number {
    return 2 + 2 * d
  }

  #objectAt(o: number): number {
    return 1 + 2 * this.#deciders + 2 * o
  }

  #roundsAt(o: number): number {
    return 2 + 2 * this.#deciders + 2 * o
  }
}

function digit(number: number, place: number): number {
  return Math.floor(number / 3 ** place) % 3
}

function count(bits: number): number {
  let ones = 0
  for (let left = bits; left !== 0; left &= left - 1) ones++
  return ones
}

function isBefore(a: State, b: State): boolean {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return (a[i] as number) < (b[i] as number)
  return false
}

/** The first changes nothing. */
function permutations(length: number): Names[] {
  if (length === 0) return [[]]
  return permutations(length - 1).flatMap((shorter) =>
    Array.from({ length }, (_, place) => [
      ...shorter.slice(0, length - 1 - place),
      length - 1,
      ...shorter.slice(length - 1 - place),
    ]),
  )
}
