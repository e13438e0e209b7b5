/** Several places of a store, each of which is called as long as its own circuit allows. */
import { type Circuit, type Store, StoreError, type StorePlace, type StorePlaces } from '../../model/store.ts'
import { readLatestMs } from '../../runtime/clocks.ts'
import { consoleLog, type Log } from '../../runtime/log.ts'
import { CircuitBreaker, withBreaker } from '../stages/circuit-breaker.ts'
import { decorate } from '../stages/stage.ts'

export interface GuardOptions {
  /** Deadline of a decision, in milliseconds. */
  readonly timeoutMs: number
  /** Default: the time of the system. */
  readonly now?: (() => number) | undefined
  /** Default: the console. */
  readonly log?: Log | undefined
  /** If false, a place is called however often it fails. Default: true. */
  readonly hasBreaker?: boolean | undefined
}

interface GuardedPlace extends StorePlace {
  /** Called as long as its circuit allows. */
  readonly store: Store
}

/** Places of a store, by name, each with a circuit of its own. */
export class GuardedPlaces implements StorePlaces {
  readonly byName = new Map<string, GuardedPlace>()
  readonly #options: GuardOptions

  constructor(options: GuardOptions) {
    this.#options = options
  }

  /** The worst one. */
  get circuit(): Circuit {
    const circuits = [...this.byName.values()].map(({ circuit }) => circuit)
    return WORST_FIRST.find((circuit) => circuits.includes(circuit)) ?? 'closed'
  }

  get mayCall(): boolean {
    return [...this.byName.values()].every(({ mayCall }) => mayCall)
  }

  add(name: string, store: Store): GuardedPlace {
    const { now = readLatestMs, log = consoleLog, timeoutMs, hasBreaker = true } = this.#options
    const probeTimeoutMs = 2 * timeoutMs
    const breaker = hasBreaker ? new CircuitBreaker({ now, random: Math.random, probeTimeoutMs }) : undefined
    const logNamed: Log = (level, fields) => log(level, { ...fields, place: name })
    const guarded = withBreaker(store, { breaker, now, log: logNamed })
    const place = {
      store: decorate(guarded, {
        decide: (request, context) => guarded.decide(request, context).catch((error) => raiseNamed(name, error)),
      }),
      get circuit() {
        return breaker?.circuit ?? 'closed'
      },
      get mayCall() {
        return breaker?.mayCall ?? true
      },
      async ping() {
        await store.ping()
        breaker?.halfOpen()
      },
    }
    this.byName.set(name, place)
    return place
  }
}

const WORST_FIRST: readonly Circuit[] = ['open', 'half-open', 'closed']

/** Says which of the places has failed. */
function raiseNamed(name: string, error: unknown): never {
  if (!(error instanceof StoreError) || name === '') throw error
  throw new StoreError(`${name}: ${error.message}`, error)
}
