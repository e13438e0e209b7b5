import { formatNumber } from '../kit/table.ts'

/** A system whose every possible run is to be looked at. */
export interface Model {
  readonly start: State
  /** All that may happen next; none if the run is over. */
  next(state: State): readonly State[]
  /** What is wrong with a state. */
  faults(state: State, isOver: boolean): readonly string[]
}

/** Integers from 0 to 2³² - 1, as many in each state; the same for states that are the same. */
export type State = readonly number[]

export interface Exploration {
  /** Different ones. */
  readonly states: number
  /** Ways from one to another. */
  readonly steps: number
  /** In which nothing more can happen. */
  readonly ends: number
  /** Whether all were visited, rather than as many as are visited at most. */
  readonly isComplete: boolean
  readonly violations: number
  /** What is wrong with the first state that is wrong. */
  readonly first: string | undefined
}

/**
 * Visits every state that can be reached, each once, or at most so many.
 * @param meet gets each state in which a run ends
 */
export function explore(
  model: Model,
  maxStates = Number.POSITIVE_INFINITY,
  meet: (end: State) => void = () => {},
): Exploration {
  const seen = new Seen()
  seen.add(model.start)
  const left = [model.start]
  let [steps, ends, violations] = [0, 0, 0]
  let first: string | undefined
  for (let state = left.pop(); state !== undefined; state = left.pop()) {
    const nexts = model.next(state)
    steps += nexts.length
    for (const next of nexts) if (seen.size < maxStates && seen.add(next)) left.push(next)
    const isOver = nexts.length === 0
    if (isOver) {
      ends++
      meet(state)
    }
    const faults = model.faults(state, isOver)
    if (faults.length > 0) violations++
    first ??= faults[0]
  }
  return { states: seen.size, steps, ends, isComplete: seen.size < maxStates, violations, first }
}

/** One line, and another one for the first violation. */
export function formatExploration(name: string, found: Exploration): string {
  const { states, steps, ends, isComplete, violations, first } = found
  const visited = `${formatNumber(states)} states, ${formatNumber(steps)} transitions, ${formatNumber(ends)} ends`
  const extent = isComplete ? 'complete' : 'not complete'
  return `${name}: ${visited}, ${extent}, violations ${formatNumber(violations)}${first ? `\n  ${first}` : ''}`
}

/** States that were seen, each as 64 bits of its own: among 10⁸, two are the same by chance once in 3,000 explorations. */
class Seen {
  size = 0
  #bits = 16
  #words = new Uint32Array(2 << this.#bits)

  /** @returns whether it is new */
  add(state: State): boolean {
    let [high, low] = [0x9e3779b9, 0x85ebca6b]
    for (const word of state) {
      high = Math.imul(high ^ word, 0x2c1b3c6d)
      high ^= high >>> 15
      low = Math.imul(low + word + (low << 7), 0x297a2d39)
      low ^= low >>> 13
    }
    high = mix(high)
    low = mix(low ^ (high >>> 3))
    // 0 stands for an empty place.
    if (!this.#put(high >>> 0, low >>> 0 || 1)) return false
    if (++this.size * 2 > 1 << this.#bits) this.#grow()
    return true
  }

  #put(high: number, low: number): boolean {
    const mask = (1 << this.#bits) - 1
    for (let place = high & mask; ; place = (place + 1) & mask) {
      const known = this.#words[2 * place + 1]
      if (known === 0) {
        this.#words[2 * place] = high
        this.#words[2 * place + 1] = low
        return true
      }
      if (known === low && this.#words[2 * place] === high) return false
    }
  }

  #grow(): void {
    const words = this.#words
    this.#bits++
    this.#words = new Uint32Array(2 << this.#bits)
    for (let at = 0; at < words.length; at += 2) {
      const low = words[at + 1] as number
      if (low !== 0) this.#put(words[at] as number, low)
    }
  }
}

function mix(bits: number): number {
  let mixed = Math.imul(bits ^ (bits >>> 16), 0x7feb352d)
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x846ca68b)
  return mixed ^ (mixed >>> 16)
}
