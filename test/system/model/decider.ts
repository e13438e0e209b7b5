import type { StoreCharge } from '../../../src/core/model/charge.ts'
import { Negotiation, type To } from '../../../src/core/store/durable-object/negotiation.ts'
import type { CommitOrAbort, ObjectVote, PreparedCharge } from '../../../src/core/store/durable-object/objects.ts'
import { Numbered } from './numbered.ts'
import { PATIENCE_MS, type PlainVote, type Round } from './object.ts'

export type Phase = 'first' | 'second' | 'confirming' | 'admitted' | 'refused' | 'dead'

/** What one decider knows. */
export interface Decider {
  readonly phase: Phase
  /** By object; null if it has not answered, or was not asked, and `failed` if it has ended instead. */
  readonly votes: readonly (PlainVote | null | 'failed')[]
  /** Objects that have not answered what was asked last, a bit for each. */
  readonly awaited: number
}

/** A message to an object. */
export interface Sent {
  readonly to: number
  readonly kind: Round | 'keep' | 'cancel'
}

export interface Act {
  readonly state: number
  readonly sent: readonly Sent[]
}

/** The code of a decider, as a function from one state to the next. All are the same. */
export class DeciderCode {
  readonly #charges: readonly StoreCharge[]
  readonly #deciders = new Numbered<Decider>()
  readonly #teach: (object: number, request: Round, reservation: PreparedCharge) => void
  readonly #received = new Map<string, number>()
  readonly #acts = new Map<string, Act>()

  /** @param teach is told what each object is asked */
  constructor(charges: readonly StoreCharge[], teach: DeciderCode['teach']) {
    this.#charges = charges
    this.#teach = teach
  }

  get teach(): (object: number, request: Round, reservation: PreparedCharge) => void {
    return this.#teach
  }

  begin(): Act {
    const sent = this.#ask(this.#negotiation([]).prepareFirst())
    return {
      state: this.#findNumber({ phase: 'first', votes: this.#charges.map(() => null), awaited: findAwaited(sent) }),
      sent,
    }
  }

  get(state: number): Decider {
    return this.#deciders.get(state)
  }

  /** One that has ended, and will not be heard of again. */
  ended(state: number, phase: 'admitted' | 'refused' | 'dead'): number {
    // Whom it has asked matters for what it was let through with.
    const votes = phase === 'admitted' ? this.get(state).votes : []
    return this.#findNumber({ phase, votes, awaited: 0 })
  }

  /** @param vote of an object; undefined if it has ended */
  hear(state: number, object: number, vote: PlainVote | undefined): number {
    const name = `${state} ${object} ${vote ? JSON.stringify(vote) : ''}`
    let next = this.#received.get(name)
    if (next === undefined) {
      const { phase, votes, awaited } = this.get(state)
      const isAwaited = (phase === 'first' || phase === 'second') && (awaited & (1 << object)) !== 0
      next = isAwaited
        ? this.#findNumber({ phase, votes: votes.with(object, vote ?? 'failed'), awaited: awaited & ~(1 << object) })
        : state
      this.#received.set(name, next)
    }
    return next
  }

  /** An object has acknowledged that something stays. */
  acknowledge(state: number, object: number): number {
    const { phase, votes, awaited } = this.get(state)
    if (phase !== 'confirming') return state
    return this.#findNumber({ phase, votes, awaited: awaited & ~(1 << object) })
  }

  /** All that was asked is answered. @param isLate nothing more can be asked */
  goOn(state: number, isLate: boolean): Act {
    return this.#act(`${state} ${isLate}`, () => this.#goOn(state, isLate))
  }

  giveUp(state: number): Act {
    return this.#act(`${state}`, () => {
      const sent = this.#close(this.#findNegotiation(state).cancel())
      return { state: this.ended(state, 'refused'), sent }
    })
  }

  #goOn(state: number, isLate: boolean): Act {
    const { phase, votes } = this.get(state)
    if (votes.includes('failed')) return this.giveUp(state)
    const negotiation = this.#findNegotiation(state)
    if (phase === 'confirming') {
      return { state: this.ended(state, 'admitted'), sent: this.#close(negotiation.conclude().kept) }
    }
    const second = phase === 'first' ? negotiation.prepareSecond() : []
    if (second.length > 0) {
      if (isLate) return this.giveUp(state)
      const sent = this.#ask(second)
      return { state: this.#findNumber({ phase: 'second', votes, awaited: findAwaited(sent) }), sent }
    }
    if (negotiation.isVoid) return this.giveUp(state)
    const { decision, awaited, kept } = negotiation.conclude()
    const sent = this.#close(awaited)
    const confirmed = findAwaited(sent.filter(({ kind }) => kind === 'keep'))
    if (confirmed !== 0) return { state: this.#findNumber({ phase: 'confirming', votes, awaited: confirmed }), sent }
    const phaseAfter = decision.granted > 0 ? 'admitted' : 'refused'
    return { state: this.ended(state, phaseAfter), sent: [...sent, ...this.#close(kept)] }
  }

  #act(name: string, act: () => Act): Act {
    let done = this.#acts.get(name)
    if (!done) {
      done = act()
      this.#acts.set(name, done)
    }
    return done
  }

  #findNumber({ phase, votes, awaited }: Decider): number {
    return this.#deciders.findNumber({ phase, votes, awaited })
  }

  #findNegotiation(state: number): Negotiation {
    return this.#negotiation(this.get(state).votes)
  }

  #negotiation(votes: Decider['votes']): Negotiation {
    const negotiation = new Negotiation({ action: 'take', permits: 1, charges: this.#charges }, 1, PATIENCE_MS)
    votes.forEach((vote, object) => {
      if (vote === null || vote === 'failed') return
      const whole: ObjectVote = { ...vote, forfeited: 0, usage: [], nowMs: 0, isProvisional: false }
      negotiation.addVote(object, whole)
    })
    return negotiation
  }

  #ask(reservations: readonly To<PreparedCharge>[]): Sent[] {
    return reservations.map(({ index, message }) => {
      const isSecond = this.#charges[index]?.counts === 'new-identities'
      const kind = message.action === 'peek' ? 'look' : isSecond ? 'second' : 'first'
      this.#teach(index, kind, message)
      return { to: index, kind }
    })
  }

  #close(closings: readonly To<CommitOrAbort>[]): Sent[] {
    return closings.map(({ index, message: { permits } }) => ({ to: index, kind: permits > 0 ? 'keep' : 'cancel' }))
  }
}

function findAwaited(sent: readonly Sent[]): number {
  return sent.reduce((bits, { to }) => bits | (1 << to), 0)
}
