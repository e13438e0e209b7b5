/**
 * Checks whether a recorded history of a store is linearizable: whether its calls can be put in one order, each between
 * its start and its end, in which the sequential algorithm gives every answer that was received. The search is that of
 * Wing and Gong, with the memory of Lowe and Porcupine: never twice from the same calls done and the same state.
 */
import type { Decision, DecisionRequest } from '../../src/core/model/charge.ts'
import { decideIn, describeStored, type Stored } from './sequential-store.ts'

/** A call as its caller saw it, by one clock for all callers: milliseconds since the Unix epoch, with a fraction. */
export interface Call {
  readonly startMs: number
  /** Infinite without an answer: the call may then be decided at any time after its start, or never. */
  readonly endMs: number
  readonly request: DecisionRequest
  readonly decision?: Decision
  /** The store's time of the decision in microseconds, if it is known more exactly than `nowMs` tells. */
  readonly atUs?: number
}

export interface Verdict {
  readonly kind: 'linearizable' | 'violated' | 'undecided'
  /** Pairs of calls done and states that were visited. */
  readonly visited: number
  /** Where the longest order ends: what the calls that may come next got, and what the algorithm gives. */
  readonly stuckAt: string
}

/** The part of a millisecond that is assumed of a store that tells whole ones: the last one, as stores without parts do. */
const LAST_PART_US = 999
/** The store's clock and that of the callers, on one machine, may differ by so much. */
const CLOCKS_APART_MS = 20
const MAX_VISITED = 200_000

/** Divides a history into those whose calls share keys, directly or through other calls. */
export function splitByKeys(calls: readonly Call[]): Call[][] {
  const groups = new Map<string, { calls: Call[]; keys: string[] }>()
  for (const call of calls) {
    const keys = call.request.charges.map(({ key }) => key)
    const joined = new Set(keys.flatMap((key) => groups.get(key) ?? []))
    const group = { calls: [...joined].flatMap((one) => one.calls), keys: [...joined].flatMap((one) => one.keys) }
    group.calls.push(call)
    group.keys.push(...keys)
    for (const key of group.keys) groups.set(key, group)
  }
  return [...new Set(groups.values())].map((group) => group.calls)
}

/** @param calls that share keys @param maxVisited after which it is undecided */
export function checkHistory(calls: readonly Call[], maxVisited = MAX_VISITED): Verdict {
  const search = new Search(calls, maxVisited)
  try {
    const kind = search.explore(new Map(), 0, 0) ? 'linearizable' : 'violated'
    return { kind, visited: search.visited, stuckAt: search.stuckAt }
  } catch (error) {
    if (error !== TOO_MANY) throw error
    return { kind: 'undecided', visited: search.visited, stuckAt: search.stuckAt }
  }
}

const TOO_MANY = new Error('more states than may be visited')

class Search {
  visited = 0
  stuckAt = ''
  readonly #calls: readonly Call[]
  readonly #isDone: boolean[] = []
  readonly #answered: number
  readonly #maxVisited: number
  readonly #seen = new Set<string>()
  #deepest = -1

  constructor(calls: readonly Call[], maxVisited: number) {
    this.#calls = calls.toSorted((a, b) => a.startMs - b.startMs)
    this.#answered = calls.filter(({ decision }) => decision).length
    this.#maxVisited = maxVisited
  }

  /**
   * @param lastUs time of the last call that is done, by the store's clock, which does not go back
   * @param depth answers so far
   * @returns whether the other calls that were answered can follow
   */
  explore(stored: Stored, lastUs: number, depth: number): boolean {
    if (depth === this.#answered) return true
    const open = this.#findOpen()
    // All that started later is open as well.
    const place = `${open} ${lastUs} ${describeStored(stored, Math.floor(lastUs / 1000))}`
    if (this.#seen.has(place)) return false
    this.#seen.add(place)
    if (++this.visited > this.#maxVisited) throw TOO_MANY
    const follow = (index: number, after: Stored, atUs: number, more: number) => {
      this.#isDone[index] = true
      const isFound = this.explore(after, atUs, depth + more)
      this.#isDone[index] = false
      return isFound
    }
    const answered = open.filter((index) => this.#read(index).decision)
    const nextUs = Math.min(...answered.map((index) => readTimeUs(this.#read(index))))
    const misses: string[] = []
    for (const index of answered) {
      const call = this.#read(index)
      const atUs = readTimeUs(call)
      if (atUs > nextUs || atUs < lastUs) continue
      const { decision, after } = decideIn(stored, call.request, atUs)
      if (describeDecision(decision) !== describeDecision(call.decision as Decision))
        misses.push(describeMiss(call, decision))
      else if (follow(index, after, atUs, 1)) return true
    }
    if (depth > this.#deepest) {
      this.#deepest = depth
      const why = misses.join('; ') || 'the next ones were decided before this'
      this.stuckAt = `after ${depth} of ${this.#answered} answers: ${why}`
    }
    // What was not answered is assumed only where the answers need it.
    for (const index of open) {
      const call = this.#read(index)
      if (call.decision) continue
      for (const atUs of listTimesUs(call, lastUs, nextUs)) {
        const { after } = decideIn(stored, call.request, atUs)
        if (after !== stored && follow(index, after, atUs, 0)) return true
      }
    }
    return false
  }

  /** The calls that may come next: none that is left has ended before they started. */
  #findOpen(): number[] {
    const open: number[] = []
    let firstEndMs = Number.POSITIVE_INFINITY
    for (const [index, { startMs, endMs }] of this.#calls.entries()) {
      if (startMs > firstEndMs) break
      if (this.#isDone[index]) continue
      firstEndMs = Math.min(firstEndMs, endMs)
      open.push(index)
    }
    return open
  }

  #read(index: number): Call {
    return this.#calls[index] as Call
  }
}

function readTimeUs({ atUs, decision }: Call): number {
  return atUs ?? (decision?.nowMs ?? 0) * 1000 + LAST_PART_US
}

/** The times at which a call without an answer may be decided between two others: every millisecond, if it is unknown. */
function* listTimesUs({ atUs, startMs }: Call, lastUs: number, nextUs: number): Iterable<number> {
  if (atUs !== undefined) {
    if (atUs >= lastUs && atUs <= nextUs) yield atUs
    return
  }
  const fromMs = Math.max(Math.floor(lastUs / 1000), Math.floor(startMs) - CLOCKS_APART_MS)
  for (let ms = fromMs; ms * 1000 <= nextUs; ms++) {
    const us = Math.min(ms * 1000 + LAST_PART_US, nextUs)
    if (us >= lastUs) yield us
  }
}

function describeDecision({ granted, usage }: Decision): string {
  const limits = usage.map((states) =>
    states.map(({ remaining, resetMs, retryAfterMs, penaltyMs = 0 }) => [remaining, resetMs, retryAfterMs, penaltyMs]),
  )
  return `${granted} ${JSON.stringify(limits)}`
}

function describeMiss({ request, decision }: Call, expected: Decision): string {
  const { action, permits, charges } = request
  const got = decision as Decision
  const asked = `${action} ${permits} of ${charges.map(({ key, cost }) => `${key} (${cost})`).join(', ')}`
  return `${asked} at ${got.nowMs} got ${describeDecision(got)}, expected ${describeDecision(expected)}`
}
