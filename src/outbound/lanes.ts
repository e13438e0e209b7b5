/** The calls to one resource, apart by what the server names its limits for, and the gates that they pass. */
import { CallQueue, type QueuedCall } from './call-queue.ts'
import { type CallWait, Gate, type GateOptions } from './gate.ts'
import type { Report } from './read-limits.ts'
import type { SentCall } from './sent-calls.ts'
import { ServerResources } from './server-resources.ts'

/** An answer, as far as limits go. */
export interface Answer extends Report {
  /** It stops calls. */
  readonly isRefusal: boolean
  /** The call was refused for a limit, and may be made again. */
  readonly isRepeatable: boolean
  readonly status: number
}

/** A call that has started. */
export interface StartedCall {
  readonly cost: number
  /** Method and path. */
  readonly route: string
  readonly atMs: number
  /** Gates that it has passed, and the call as they know it. */
  readonly passages: { readonly gate: Gate; readonly sent: SentCall }[]
}

/** Calls to what the server has one name for. */
export interface Lane<Call extends QueuedCall> {
  readonly queue: CallQueue<Call>
  /** After that of the whole resource; undefined without a name. */
  gate: Gate | undefined
  /** Calls that must start before were refused. */
  checkedMs: number
}

/** A server that names more costs nothing. */
const MAX_LANES = 100

export class Lanes<Call extends QueuedCall & { readonly route: string; lane: Lane<Call> }> {
  readonly #options: GateOptions
  readonly #names = new ServerResources()
  readonly #lanes = new Map<string | undefined, Lane<Call>>()
  #gate: Gate

  constructor(options: GateOptions) {
    this.#options = options
    this.#gate = new Gate(options)
  }

  get pausedUntilMs(): number {
    return this.#gate.pausedUntilMs
  }

  [Symbol.iterator](): Iterator<Lane<Call>, undefined> {
    return this.#lanes.values()
  }

  /** Forgets pauses and limits. */
  resume(): void {
    this.#gate = new Gate(this.#options)
    for (const lane of this.#lanes.values()) lane.gate &&= this.#createGate()
  }

  find(route: string): Lane<Call> {
    return this.#get(this.#names.find(route))
  }

  findWait({ gate }: Lane<Call>, cost: number, nowMs: number): CallWait | undefined {
    const first = this.#gate.findWait(cost, nowMs)
    const second = gate?.findWait(cost, nowMs)
    return first && second && first.untilMs < second.untilMs ? second : (first ?? second)
  }

  onSent(call: StartedCall, { gate }: Lane<Call>): void {
    addPassage(call, this.#gate)
    addPassage(call, gate)
  }

  /** @param answer undefined if the call failed @param inFlight calls that have no answer yet */
  onAnswered(call: StartedCall, answer: Answer | undefined, inFlight: Iterable<StartedCall>, nowMs: number): void {
    const named = answer?.resource
    if (named !== undefined && named !== this.#names.find(call.route)) {
      this.#names.learn(call.route, named)
      this.#sort(inFlight)
    }
    // If what it names is used up, other calls may go on.
    const isOfLane = named !== undefined && answer?.isRefusal && answer.limits.some(({ remaining }) => remaining === 0)
    const ofResource = answer && named !== undefined ? { ...answer, limits: [] } : answer
    const ofLane = answer && { ...answer, isRefusal: isOfLane === true }
    const laneGate = named === undefined ? undefined : this.#get(named).gate
    for (const { gate, sent } of call.passages) {
      if (gate === laneGate) gate.onAnswered(sent, ofLane, nowMs)
      else gate.onAnswered(sent, isOfLane || gate !== call.passages[0]?.gate ? undefined : ofResource, nowMs)
    }
  }

  /** Moves waiting calls to what the server has named meanwhile, and counts those on their way there. */
  #sort(inFlight: Iterable<StartedCall>): void {
    for (const call of inFlight) addPassage(call, this.find(call.route).gate)
    for (const call of [...this].flatMap(({ queue }) => [...queue])) {
      const lane = this.find(call.route)
      if (lane === call.lane) continue
      call.lane.queue.remove(call)
      call.lane = lane
      lane.queue.add(call)
    }
  }

  #get(name: string | undefined): Lane<Call> {
    const known = this.#lanes.get(name)
    if (known) return known
    const lane = {
      queue: new CallQueue<Call>(),
      gate: name === undefined ? undefined : this.#createGate(),
      checkedMs: 0,
    }
    this.#lanes.set(name, lane)
    if (this.#lanes.size > MAX_LANES) {
      const idle = [...this.#lanes].find(([other, { queue }]) => ![undefined, name].includes(other) && queue.size === 0)
      if (idle) this.#lanes.delete(idle[0])
    }
    return lane
  }

  #createGate(): Gate {
    return new Gate({ ...this.#options, isLimited: true })
  }
}

function addPassage({ cost, atMs, passages }: StartedCall, gate: Gate | undefined): void {
  if (!gate) return
  for (const passage of passages) if (passage.gate === gate) return
  passages.push({ gate, sent: gate.onSent(cost, atMs) })
}
