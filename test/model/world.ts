import type { Rule } from '../../src/limit/rule.ts'
import { ASK_AFTER_MS } from '../../src/store/durable-object/limit-machine.ts'
import type { Closing, ObjectVote, Reservation } from '../../src/store/durable-object/messages.ts'
import { Negotiation, type To } from '../../src/store/durable-object/negotiation.ts'
import type { Model } from './explore.ts'
import { type ObjectCall, ObjectCode, type ObjectState, type PlantedBug } from './object.ts'

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
  readonly rules: readonly Rule[]
  readonly faults: Faults
  readonly bug?: PlantedBug
}

type Phase = 'first' | 'second' | 'confirming' | 'admitted' | 'refused' | 'dead'

interface Decider {
  readonly phase: Phase
  /** By object, as numbers that stand for them. */
  readonly votes: readonly (number | null)[]
  /** Objects that have not answered what was asked last. */
  readonly awaited: readonly number[]
}

/** A message on its way, to an object. A message of a decider that has died may be lost. */
type Message =
  | { readonly kind: 'reserve'; readonly from: number; readonly to: number; readonly asked: number }
  | { readonly kind: 'close'; readonly from: number; readonly to: number; readonly permits: number }
  | { readonly kind: 'inquire'; readonly from: number; readonly to: number; readonly id: number }

/** A question of one object to its siblings, and what they have answered. */
interface Round {
  readonly object: number
  readonly id: number
  readonly tick: number
  readonly answers: readonly (boolean | null)[]
}

export interface WorldState {
  readonly tick: number
  readonly left: Faults
  readonly deciders: readonly Decider[]
  readonly objects: readonly ObjectState[]
  readonly messages: readonly Message[]
  readonly rounds: readonly Round[]
}

const START_US = 1_700_000_000_000_000
/** All messages of one tick are on their way for no time; from one to the next, what is open becomes overdue. */
const TICK_US = (ASK_AFTER_MS + 1_000) * 1_000
const LAST_TICK = 2

/** Deciders that share objects, every message between them, and what may happen to each of these. */
export class World implements Model<WorldState> {
  readonly start: WorldState
  readonly #code: ObjectCode
  readonly #rules: readonly Rule[]
  readonly #votes = new Numbered<ObjectVote>()
  readonly #reservations = new Numbered<Reservation>()

  constructor({ deciders, rules, faults, bug }: Scenario) {
    this.#code = new ObjectCode(bug)
    this.#rules = rules
    const each = Array.from({ length: deciders }, (_, index) => index)
    const first = each.map((from) => this.#negotiation(from, []).first())
    this.start = {
      tick: 0,
      left: faults,
      deciders: first.map((asked) => ({
        phase: 'first',
        votes: rules.map(() => null),
        awaited: asked.map(({ index }) => index),
      })),
      objects: rules.map(() => this.#code.fresh),
      messages: each.flatMap((from) => this.#toMessages(from, first[from] ?? [])),
      rounds: [],
    }
  }

  nameOf(state: WorldState): string {
    const messages = state.messages.map((message) => JSON.stringify(message)).toSorted()
    const rounds = state.rounds.map((round) => JSON.stringify(round)).toSorted()
    return JSON.stringify({ ...state, messages, rounds })
  }

  *next(state: WorldState): Generator<WorldState> {
    const { left, tick } = state
    for (let index = 0; index < state.messages.length; index++) {
      const message = state.messages[index] as Message
      const without = { ...state, messages: state.messages.toSpliced(index, 1) }
      yield this.#deliver(without, message)
      if (left.duplicates > 0 && message.kind !== 'inquire') {
        yield this.#deliver({ ...state, left: { ...left, duplicates: left.duplicates - 1 } }, message)
      }
    }
    for (let index = 0; index < state.deciders.length; index++) {
      const { phase, awaited } = state.deciders[index] as Decider
      const isAsking = phase === 'first' || phase === 'second' || phase === 'confirming'
      if (!isAsking) continue
      if (awaited.length === 0) yield this.#goOn(state, index)
      if (left.deaths > 0) {
        yield this.#withDecider({ ...state, left: { ...left, deaths: left.deaths - 1 } }, index, { phase: 'dead' })
      }
      if (left.timeouts > 0) yield this.#giveUp({ ...state, left: { ...left, timeouts: left.timeouts - 1 } }, index)
    }
    for (let object = 0; object < state.objects.length; object++) {
      if (left.crashes > 0) yield this.#crash({ ...state, left: { ...left, crashes: left.crashes - 1 } }, object)
      if (tick > 0) yield* this.#ask(state, object)
    }
    if (tick < LAST_TICK) yield this.#wait(state)
  }

  faults({ deciders, objects, tick }: WorldState, isOver: boolean): string[] {
    const faults: string[] = []
    const books = objects.map((object) => this.#code.bookOf(object))
    const admitted = deciders.flatMap(({ phase }, index) => (phase === 'admitted' ? [index + 1] : []))
    this.#rules.forEach(({ tiers, counts }, object) => {
      const limit = tiers[0]?.limit ?? 0
      const charged = admitted.filter(
        (id) => counts !== 'identities' || deciders[id - 1]?.votes[object] !== null,
      ).length
      if (charged > limit) faults.push(`object ${object} lets ${charged} through, and its limit is ${limit}`)
      for (const id of admitted) {
        const decided = books[object]?.decisions.get(id)
        if (decided?.permits === 0) faults.push(`object ${object} took back decision ${id}, which was let through`)
      }
      const used = this.#usedAt(objects[object] as ObjectState, object, tick)
      if (used < charged) faults.push(`object ${object} counts ${used} of ${charged} that were let through`)
      if (!isOver) return
      // Whoever died when all had granted may have let the request through.
      const haveAllGranted = (id: number) =>
        books.every(({ decisions }, place) => {
          return this.#rules[place]?.counts === 'identities' || (decisions.get(id)?.permits ?? 0) > 0
        })
      const isPossible = ({ phase }: Decider, index: number) =>
        phase === 'admitted' || (phase === 'dead' && haveAllGranted(index + 1))
      const possible = deciders.filter(isPossible).length
      if (used > possible)
        faults.push(`object ${object} still counts ${used}, and ${possible} may have been let through`)
    })
    if (isOver && deciders.some(({ phase }) => phase === 'first' || phase === 'second' || phase === 'confirming')) {
      faults.push('a decider waits for ever')
    }
    return faults
  }

  #usedAt(state: ObjectState, object: number, tick: number): number {
    const rule = this.#rules[object] as Rule
    const reservation = { mode: 'peek', permits: 1, rule } as const
    const vote = this.#call(state, { kind: 'reserve', reservation }, tick).answer as ObjectVote
    return (rule.tiers[0]?.limit ?? 0) - (vote.usage[0]?.remaining ?? 0)
  }

  #deliver(state: WorldState, message: Message): WorldState {
    switch (message.kind) {
      case 'reserve': {
        const { from, to, asked } = message
        const reservation = this.#reservations.get(asked)
        const [after, answer] = this.#at(state, to, { kind: 'reserve', reservation })
        return this.#hear(after, from, to, answer as ObjectVote)
      }
      case 'close': {
        const { from, to, permits } = message
        const [after, stands] = this.#at(state, to, { kind: 'close', closing: { id: from + 1, permits } })
        const { phase, awaited } = state.deciders[from] as Decider
        if (phase !== 'confirming') return after
        if (permits > 0 && !stands) return this.#giveUp(after, from)
        return this.#withDecider(after, from, { awaited: awaited.filter((object) => object !== to) })
      }
      case 'inquire': {
        const { from, to, id } = message
        const [after, isGranted] = this.#at(state, to, { kind: 'inquire', id })
        return this.#answer(after, from, id, to, isGranted as boolean)
      }
    }
  }

  #hear(state: WorldState, from: number, to: number, vote: ObjectVote): WorldState {
    const { phase, votes, awaited } = state.deciders[from] as Decider
    if (!awaited.includes(to) || (phase !== 'first' && phase !== 'second')) return state
    return this.#withDecider(state, from, {
      votes: votes.with(to, this.#votes.numberOf(vote)),
      awaited: awaited.filter((object) => object !== to),
    })
  }

  /** All that was asked for is answered. */
  #goOn(state: WorldState, index: number): WorldState {
    const { phase, votes } = state.deciders[index] as Decider
    const negotiation = this.#negotiation(index, votes)
    const closingsOf = (closings: readonly To<Closing>[]) =>
      closings.map(({ index: to, message: { permits } }) => ({ kind: 'close', from: index, to, permits }) as const)
    if (phase === 'confirming') {
      return this.#send(this.#withDecider(state, index, { phase: 'admitted' }), closingsOf(negotiation.conclude().kept))
    }
    const second = phase === 'first' ? negotiation.second() : []
    if (second.length > 0) {
      if (state.tick === LAST_TICK) return this.#giveUp(state, index)
      const asking = { phase: 'second', awaited: second.map(({ index }) => index) } as const
      return this.#send(this.#withDecider(state, index, asking), this.#toMessages(index, second))
    }
    if (negotiation.isVoid) return this.#giveUp(state, index)
    const { decision, givenBack, awaited, kept } = negotiation.conclude()
    if (awaited.length > 0) {
      const confirming = { phase: 'confirming', awaited: awaited.map(({ index }) => index) } as const
      return this.#send(this.#withDecider(state, index, confirming), closingsOf([...givenBack, ...awaited]))
    }
    const ended = this.#withDecider(state, index, { phase: decision.granted > 0 ? 'admitted' : 'refused' })
    return this.#send(ended, closingsOf([...givenBack, ...kept]))
  }

  #giveUp(state: WorldState, index: number): WorldState {
    const { votes } = state.deciders[index] as Decider
    const closings = this.#negotiation(index, votes)
      .cancel()
      .map(({ index: to }) => ({ kind: 'close', from: index, to, permits: 0 }) as const)
    return this.#send(this.#withDecider(state, index, { phase: 'refused', awaited: [] }), closings)
  }

  #crash(state: WorldState, object: number): WorldState {
    const [after] = this.#at(state, object, { kind: 'crash' })
    return {
      ...after,
      rounds: after.rounds.filter((round) => round.object !== object),
      messages: after.messages.filter((message) => message.kind !== 'inquire' || message.from !== object),
    }
  }

  *#ask(state: WorldState, object: number): Generator<WorldState> {
    const [after, overdue] = this.#at(state, object, { kind: 'overdue' })
    const asked = overdue as readonly { readonly id: number; readonly siblings: readonly string[] }[]
    const isNew = (id: number) =>
      !state.rounds.some((round) => round.object === object && round.id === id && round.tick === state.tick)
    const rounds = asked.filter(({ id }) => isNew(id))
    if (rounds.length === 0 && after.objects[object] === state.objects[object]) return
    let next = after
    for (const { id, siblings } of rounds) {
      const places = siblings.map((key) => this.#rules.findIndex((rule) => rule.key === key))
      const answers = this.#rules.map((_, place) => (places.includes(place) ? null : true))
      const round = { object, id, tick: state.tick, answers }
      const messages = places.map((to) => ({ kind: 'inquire', from: object, to, id }) as const)
      next = this.#send({ ...next, rounds: [...next.rounds, round] }, messages)
    }
    yield next
  }

  #answer(state: WorldState, object: number, id: number, from: number, isGranted: boolean): WorldState {
    const place = state.rounds.findIndex(
      (round) => round.object === object && round.id === id && round.answers[from] === null,
    )
    const round = state.rounds[place]
    if (!round) return state
    const answers = round.answers.with(from, isGranted)
    const next = { ...state, rounds: state.rounds.with(place, { ...round, answers }) }
    if (answers.includes(null)) return next
    return this.#at(next, object, { kind: 'learn', id, areGranted: !answers.includes(false) })[0]
  }

  /** Time goes by. At the end, reservations that have not arrived are lost, and so is what the dead have sent. */
  #wait(state: WorldState): WorldState {
    const tick = state.tick + 1
    if (tick < LAST_TICK) return { ...state, tick }
    const isDead = (message: Message) => message.kind !== 'inquire' && state.deciders[message.from]?.phase === 'dead'
    const messages = state.messages.filter((message) => message.kind !== 'reserve' && !isDead(message))
    const lost = state.messages.filter(({ kind }) => kind === 'reserve').map(({ from }) => from)
    // Whoever waits for an answer that will not come gives up.
    return [...new Set(lost)].reduce(
      (next, from) => {
        const phase = next.deciders[from]?.phase
        return phase === 'first' || phase === 'second' ? this.#giveUp(next, from) : next
      },
      { ...state, tick, messages } as WorldState,
    )
  }

  #at(state: WorldState, object: number, call: ObjectCall): [WorldState, unknown] {
    const { state: after, answer } = this.#call(state.objects[object] as ObjectState, call, state.tick)
    return [{ ...state, objects: state.objects.with(object, after) }, answer]
  }

  #call(state: ObjectState, call: ObjectCall, tick: number) {
    return this.#code.run(state, call, START_US + tick * TICK_US)
  }

  #withDecider(state: WorldState, index: number, change: Partial<Decider>): WorldState {
    const decider = { ...(state.deciders[index] as Decider), ...change }
    return { ...state, deciders: state.deciders.with(index, decider) }
  }

  #send(state: WorldState, messages: readonly Message[]): WorldState {
    return { ...state, messages: [...state.messages, ...messages] }
  }

  #negotiation(index: number, votes: readonly (number | null)[]): Negotiation {
    const negotiation = new Negotiation({ mode: 'all', permits: 1, rules: this.#rules }, index + 1, 0)
    votes.forEach((vote, object) => {
      // What it concludes is subtracted in place.
      if (vote !== null) negotiation.hear(object, structuredClone(this.#votes.get(vote)))
    })
    return negotiation
  }

  #toMessages(from: number, reservations: readonly To<Reservation>[]): Message[] {
    return reservations.map(({ index, message }) => {
      return { kind: 'reserve', from, to: index, asked: this.#reservations.numberOf(message) }
    })
  }
}

/** Values that are named by numbers, so that states stay small. */
class Numbered<Value> {
  readonly #values: Value[] = []
  readonly #numbers = new Map<string, number>()

  numberOf(value: Value): number {
    const text = JSON.stringify(value)
    let number = this.#numbers.get(text)
    if (number === undefined) {
      number = this.#values.push(value) - 1
      this.#numbers.set(text, number)
    }
    return number
  }

  get(number: number): Value {
    return this.#values[number] as Value
  }
}
