import type { LogEntry } from '../../../src/command/simulate/log-line.ts'
import { type Fate, Simulation } from '../../../src/command/simulate/simulation.ts'
import type { Config } from '../../../src/http/config/load-config.ts'

/** A request that was really decided. */
export interface Decided {
  /** With the likeliest of the moments below. */
  readonly entry: LogEntry
  /** The real decision was made at one moment between, both included. */
  readonly earliestMs: number
  readonly latestMs: number
  readonly fate: Fate
}

export interface Agreement {
  /** The requests, each at a moment at which the simulation decides all of them as they were really decided. */
  readonly entries: readonly LogEntry[]
  /** Those that are not at their likeliest moment, and how far each is from all that the record allows. */
  readonly moved: readonly { readonly index: number; readonly beyondMs: number }[]
}

/**
 * Finds moments at which a simulation decides as it was really decided. A request that is decided otherwise is tried at
 * every moment that the record allows and at those within a tolerance; what comes later is decided on that ground, so
 * that one unlucky date does not count for all that follow.
 * @throws {Error} that tells of the first request for which there is no such moment
 */
export async function agree(config: Config, decided: readonly Decided[], toleranceMs: number): Promise<Agreement> {
  let entries = decided.map(({ entry }) => entry)
  const moved: Agreement['moved'][number][] = []
  for (let index = await firstOther(entries); index >= 0; index = await firstOther(entries)) {
    const last = moved.at(-1)
    if (last && last.index >= index) throw new Error(`request ${index} was decided otherwise a second time`)
    const found = await findMoment(index)
    if (!found) throw new Error(`no moment explains:\n${described(index)}`)
    entries = found.entries
    moved.push({ index, beyondMs: found.beyondMs })
  }
  return { entries, moved }

  /** @returns index of the first request that has another fate than it had; -1 if all have theirs */
  async function firstOther(log: readonly LogEntry[]): Promise<number> {
    const simulation = new Simulation(config)
    for (const [index, entry] of log.entries()) {
      if ((await simulation.replay(entry)) !== decided[index]?.fate) return index
    }
    return -1
  }

  async function findMoment(index: number) {
    const { earliestMs, latestMs } = decided[index] as Decided
    for (let beyondMs = 0; beyondMs <= toleranceMs; beyondMs++) {
      for (const timeMs of findMoments(Math.floor(earliestMs), Math.ceil(latestMs), beyondMs)) {
        // Those before come no later than this one.
        const before = entries.slice(0, index).map((entry) => ({ ...entry, timeMs: Math.min(entry.timeMs, timeMs) }))
        const log = [...before, { ...(entries[index] as LogEntry), timeMs }]
        if ((await firstOther(log)) < 0) return { entries: [...log, ...entries.slice(index + 1)], beyondMs }
      }
    }
    return undefined
  }

  function described(index: number): string {
    return entries
      .slice(Math.max(0, index - 20), index + 3)
      .map(({ timeMs, method, target, token, ip }, at) => {
        const number = Math.max(0, index - 20) + at
        const { fate, earliestMs, latestMs } = decided[number] as Decided
        return `${number} ${method} ${target} ${token} ${ip}: ${fate} at ${timeMs}, ${earliestMs} to ${latestMs}`
      })
      .join('\n')
  }
}

/** The middle of each millisecond from one to another; or, beyond them, that of the next on either side. */
function* findMoments(earliestMs: number, latestMs: number, beyondMs: number): Generator<number> {
  if (beyondMs > 0) {
    yield earliestMs - beyondMs + 0.5
    yield latestMs + beyondMs - 0.5
  } else {
    for (let ms = earliestMs; ms < latestMs; ms++) yield ms + 0.5
  }
}
