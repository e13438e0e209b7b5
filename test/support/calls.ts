/** Calls to a store that run and are answered when a test says so, and the steps by which it says so. */
import fc from 'fast-check'
import type { Decision, DecisionRequest } from '../../src/core/model/charge.ts'
import { START_MS } from './arbitraries.ts'
import type { TimedStore } from './timed-stores.ts'

/** A step that what is on its way takes. Run and delivered is not always in the order in which it was sent. */
export type CallStep = { readonly kind: 'run' | 'deliver'; readonly index: number } | { readonly kind: 'settle' }

/**
 * Steps of these kinds, to be drawn among others by `fc.oneof`.
 * @param fields what else is drawn for each
 */
export function step<const Kind extends string, Fields extends object = object>(
  weight: number,
  kinds: readonly Kind[],
  fields: { readonly [Name in keyof Fields]: fc.Arbitrary<Fields[Name]> } = {} as never,
): fc.WeightedArbitrary<{ readonly kind: Kind } & Fields> {
  const arbitrary: fc.Arbitrary<object> = fc.record({ ...fields, kind: fc.constantFrom(...kinds) })
  return { weight, arbitrary: arbitrary as fc.Arbitrary<{ readonly kind: Kind } & Fields> }
}

/** The type of the values that an arbitrary draws. */
export type Drawn<Arbitrary> = Arbitrary extends fc.Arbitrary<infer Value> ? Value : never

/** A store whose calls run and are answered when the test says so. */
export class Calls {
  nowMs = START_MS
  /** For how long an answer may have been on its way, by which a told time may be late. */
  longestMs = 0
  readonly store: TimedStore
  readonly #sent: (() => Promise<void>)[] = []
  readonly #answered: (() => void)[] = []

  constructor(store: TimedStore) {
    this.store = store
  }

  /** Calls that have not run yet. */
  get sent(): number {
    return this.#sent.length
  }

  get isQuiet(): boolean {
    return this.#sent.length === 0 && this.#answered.length === 0
  }

  /** @param onRun is told of the decision when the store has made it, and answers what is to be done when it arrives */
  send(request: DecisionRequest, onRun?: (decision: Decision) => (() => void) | undefined): Promise<Decision> {
    const { promise, resolve } = Promise.withResolvers<Decision>()
    const sentMs = this.nowMs
    this.#sent.push(async () => {
      const decision = await this.store.decide(request, this.nowMs * 1000)
      const onAnswer = onRun?.(decision)
      this.#answered.push(() => {
        this.longestMs = Math.max(this.longestMs, this.nowMs - sentMs)
        onAnswer?.()
        resolve(decision)
      })
    })
    return promise
  }

  async run(index: number): Promise<void> {
    const [call] = this.#sent.splice(index % Math.max(1, this.#sent.length), 1)
    await call?.()
  }

  async deliver(index: number): Promise<void> {
    const [answer] = this.#answered.splice(index % Math.max(1, this.#answered.length), 1)
    answer?.()
    await new Promise(setImmediate)
  }

  async settle(): Promise<void> {
    while (this.#sent.length > 0) await this.run(0)
    while (this.#answered.length > 0) await this.deliver(0)
  }
  async takeStep(step: CallStep): Promise<void> {
    if (step.kind === 'settle') await this.settle()
    else await this[step.kind](step.index)
  }
}
