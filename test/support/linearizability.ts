/**
 * Checks whether a recorded history of a store is linearizable: whether its calls can be put in one order, each between
 * its start and its end, in which the sequential algorithm gives every answer that was received. The search is that of
 * Wing and Gong, with the memory of Lowe and Porcupine: never twice from the same calls done and the same state.
 */
import type { Decision, StoreCharge } from '../../src/core/model/charge.ts'
import type { Call } from './recorded-store.ts'
import { decideIn, describeDecision, describeStored, type Stored } from './sequential-store.ts'

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

/**
 * Where calls without an answer are assumed. The first two are quick, and an order that they find is one; only the last
 * tries everything.
 */
const STRATEGIES = [
  { isLazy: true, prefersShown: true },
  { isLazy: true, prefersShown: false },
  { isLazy: false, prefersShown: false },
] as const
type Strategy = (typeof STRATEGIES)[number]

/** @param calls that share keys @param maxVisited by each strategy; it is undecided if the last one visits more */
export function checkHistory(calls: readonly Call[], maxVisited = MAX_VISITED): Verdict {
  let visited = 0
  let verdict: Verdict | undefined
  for (const strategy of STRATEGIES) {
    const search = new Search(calls, strategy, maxVisited)
    const kind = search.run()
    visited += search.visited
    verdict = { kind, visited, stuckAt: search.stuckAt }
    if (kind === 'linearizable') break
  }
  return verdict as Verdict
}

const TOO_MANY = new Error('more states than may be visited')

class Search {
  visited = 0
  stuckAt = ''
  readonly #calls: readonly Call[]
  readonly #isDone: boolean[] = []
  readonly #answered: number
  readonly #maxVisited: number
  readonly #strategy: Strategy
  readonly #seen = new Set<string>()
  /** Dates of charges, and beginnings of windows, that answers show: calls without an answer are tried there first. */
  readonly #shownMs = new Set<number>()
  #deepest = -1

  constructor(calls: readonly Call[], strategy: Strategy, maxVisited: number) {
    this.#strategy = strategy
    this.#calls = calls.toSorted((a, b) => a.startMs - b.startMs)
    this.#answered = calls.filter(({ decision }) => decision).length
    this.#maxVisited = maxVisited
    for (const { decision, request } of calls) {
      for (const [index, states] of (decision?.usage ?? []).entries()) {
        const { limits } = request.charges[index] as StoreCharge
        for (const [at, { resetMs }] of states.entries()) {
          this.#shownMs.add((decision?.nowMs ?? 0) + resetMs - (limits[at]?.windowMs ?? 0))
        }
      }
    }
  }

  run(): Verdict['kind'] {
    try {
      return this.#explore(new Map(), 0, 0) ? 'linearizable' : 'violated'
    } catch (error) {
      if (error !== TOO_MANY) throw error
      return 'undecided'
    }
  }

  /**
   * @param lastUs time of the last call that is done, by the store's clock, which does not go back
   * @param depth answers so far
   * @returns whether the other calls that were answered can follow
   */
  #explore(stored: Stored, lastUs: number, depth: number): boolean {
    if (depth === this.#answered) return true
    const open = this.#findOpen()
    // All that started later is open as well.
    const place = `${open} ${lastUs} ${describeStored(stored, Math.floor(lastUs / 1000))}`
    if (this.#seen.has(place)) return false
    this.#seen.add(place)
    if (++this.visited > this.#maxVisited) throw TOO_MANY
    const follow = (index: number, after: Stored, atUs: number, more: number) => {
      this.#isDone[index] = true
      const isFound = this.#explore(after, atUs, depth + more)
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
    const { isLazy, prefersShown } = this.#strategy
    // All that is next was answered as if nothing had come in between.
    if (isLazy && misses.length === 0) return false
    // The latest is the most likely one: of an earlier one, an answer would have shown it already.
    for (const index of open.toReversed()) {
      const call = this.#read(index)
      if (call.decision) continue
      for (const atUs of this.#listTimesUs(call, lastUs, nextUs, prefersShown)) {
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

  /** The times at which a call without an answer may be decided between two others: if it is unknown, any millisecond. */
  #listTimesUs({ atUs, startMs }: Call, lastUs: number, nextUs: number, prefersShown: boolean): number[] {
    if (atUs !== undefined) return atUs >= lastUs && atUs <= nextUs ? [atUs] : []
    const fromMs = Math.max(Math.floor(lastUs / 1000), Math.floor(startMs) - CLOCKS_APART_MS)
    const times: number[] = []
    for (let ms = fromMs; ms * 1000 <= nextUs; ms++) {
      const us = Math.min(ms * 1000 + LAST_PART_US, nextUs)
      if (us >= lastUs) times.push(us)
    }
    // A date is rounded up, the beginning of a window down.
    const isShown = (us: number) => [Math.floor, Math.ceil].some((round) => this.#shownMs.has(round(us / 1000)))
    const shown = times.filter(isShown)
    return prefersShown && shown.length > 0 ? shown : times
  }

  #read(index: number): Call {
    return this.#calls[index] as Call
  }
}

function readTimeUs({ atUs, decision }: Call): number {
  return atUs ?? (decision?.nowMs ?? 0) * 1000 + LAST_PART_US
}

function describeMiss({ request, decision }: Call, expected: Decision): string {
  const { action, permits, charges } = request
  const got = decision as Decision
  const terms = `${action} ${permits} of ${charges.map(({ key, cost }) => `${key} (${cost})`).join(', ')}`
  return `${terms} got ${describeDecision(got)}, expected ${describeDecision(expected)}`
}
