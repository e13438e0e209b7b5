/** One Redis in virtual time, in one region, as fast as Upstash lets a database be. */
import { VirtualStore } from '../../src/command/simulate/virtual-store.ts'
import type { Decision, DecisionRequest } from '../../src/core/model/charge.ts'
import { type Store, StoreError } from '../../src/core/model/store.ts'
import { type CallContext, Deadlines, TOO_LATE } from '../../src/core/runtime/call-context.ts'
import { Server } from './server.ts'
import type { VirtualTime } from './virtual-time.ts'

/** "Max commands / sec: 10,000" of one database, pay as you go: https://upstash.com/docs/redis/overall/billing */
const COMMANDS_PER_MS = 10

export interface RedisOptions {
  readonly time: VirtualTime
  readonly random: () => number
  /** Calls that are not simulated, for each that is. */
  readonly others: number
  /** Deadline of a decision, in milliseconds. */
  readonly timeoutMs: number
}

/** It decides by the script's implementation in TypeScript. */
export class RedisSite {
  calls = 0
  readonly #options: RedisOptions
  readonly #server: Server
  readonly #store = new VirtualStore()

  constructor(options: RedisOptions) {
    this.#options = options
    this.#server = new Server(options.others, options.random)
  }

  /** Commands that are billed. */
  get commands(): number {
    return this.#store.commands
  }

  /**
   * The store as a place has it. It waits for an answer as the store over Upstash does.
   * @param roundTripMs to the primary and back: every decision writes, so no replica nearer by can answer it
   */
  storeAt(roundTripMs: number): Store {
    const { timeoutMs } = this.#options
    const oneWayMs = roundTripMs / 2
    const decide = async (request: DecisionRequest, context?: CallContext) => {
      const deadlines = context?.deadlines ?? Deadlines.createForOne()
      const decision = await deadlines.waitWithin(timeoutMs, this.#call(request, oneWayMs))
      if (decision === TOO_LATE) throw new StoreError('Redis did not answer within the deadline')
      return decision
    }
    return { ...NOT_SIMULATED, kind: 'redis', decide }
  }

  #call(request: DecisionRequest, oneWayMs: number): Promise<Decision> {
    const { time } = this.#options
    this.calls++
    return new Promise((resolve, reject) => {
      time.quietlyAt(time.nowMs + oneWayMs, () => {
        const isServed = this.#server.arrive(time.nowMs, (startMs) => {
          const [decision, commands] = this.#decide(request, startMs)
          const serviceMs = commands / COMMANDS_PER_MS
          time.at(startMs + serviceMs + oneWayMs, () => resolve(decision))
          return serviceMs
        })
        if (isServed) return
        time.at(time.nowMs + oneWayMs, () => reject(new StoreError('Redis has too much to do')))
      })
    })
  }

  #decide(request: DecisionRequest, nowMs: number): [decision: Decision, commands: number] {
    const before = this.#store.commands
    this.#store.advanceTo(nowMs)
    const decision = this.#store.decideNow(request)
    if (this.#store.isFull) throw new Error('more callers than the twin remembers: some would begin anew')
    return [decision, this.#store.commands - before]
  }
}

const refuseCall = () => Promise.reject(new Error('not simulated'))

/** Nothing of what is simulated holds slots, settles or resets. */
export const NOT_SIMULATED = {
  release: refuseCall,
  revoke: refuseCall,
  renew: refuseCall,
  settle: refuseCall,
  delete: refuseCall,
  ping: refuseCall,
}
