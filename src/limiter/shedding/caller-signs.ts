/**
 * What each caller's requests say about the upstream, in a fixed number of cells. A caller counts in the cell that its
 * name falls into, so this stays small however many there are.
 */
import type { Signs } from './shed-level.ts'

const CELLS = 64

export class CallerSigns {
  readonly #inFlight = new Float64Array(CELLS)
  readonly #answers = new Float64Array(CELLS)
  readonly #overloads = new Float64Array(CELLS)
  readonly #latencyMs = new Float64Array(CELLS)

  /** @returns the caller's cell, for the end of the request */
  begin(caller: string): number {
    const cell = cellOf(caller)
    this.#inFlight[cell] = (this.#inFlight[cell] as number) + 1
    return cell
  }

  end(cell: number, latencyMs: number, isOverload: boolean): void {
    this.#inFlight[cell] = (this.#inFlight[cell] as number) - 1
    this.#answers[cell] = (this.#answers[cell] as number) + 1
    this.#latencyMs[cell] = (this.#latencyMs[cell] as number) + latencyMs
    if (isOverload) this.#overloads[cell] = (this.#overloads[cell] as number) + 1
  }

  /** The signs since the last call. All callers weigh the same, and the worst counts only as much as the next one. */
  take(): Signs {
    const shares: number[] = []
    const latencies: number[] = []
    this.#answers.forEach((answers, cell) => {
      if (answers === 0) return
      shares.push((this.#overloads[cell] as number) / answers)
      latencies.push((this.#latencyMs[cell] as number) / answers)
    })
    for (const counts of [this.#answers, this.#overloads, this.#latencyMs]) counts.fill(0)
    return {
      inFlight: fairSum(this.#inFlight),
      overloadShare: fairSum(shares) / Math.max(1, shares.length),
      latencyMs: latencies.length < 2 ? undefined : fairSum(latencies) / latencies.length,
    }
  }
}

/** The greatest counts as much as the next one. */
function fairSum(values: ArrayLike<number>): number {
  let sum = 0
  let most = 0
  let next = 0
  for (let index = 0; index < values.length; index++) {
    const value = values[index] as number
    sum += value
    if (value > most) {
      next = most
      most = value
    } else if (value > next) next = value
  }
  return sum - most + next
}

/** FNV-1a: a caller has one address, and so one cell, whatever it is. */
function cellOf(caller: string): number {
  let hash = 0x811c9dc5
  for (let index = 0; index < caller.length; index++) {
    hash = Math.imul(hash ^ caller.charCodeAt(index), 0x01000193)
  }
  return ((hash ^ (hash >>> 16)) >>> 0) % CELLS
}
