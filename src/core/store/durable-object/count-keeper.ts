/**
 * Keeps counted windows. A window of `quota` begins with its first charge: if that is taken back, it begins with the next
 * one that stays, or that is still open.
 */

import type { Algorithm } from '../../algorithms/algorithm.ts'
import type { CountedWindowsState } from '../../algorithms/counted-windows.ts'
import type { Keeper, MachineState, Open } from './machine-state.ts'

export function createCountKeeper(algorithm: Algorithm<CountedWindowsState>): Keeper<CountedWindowsState> {
  return {
    charge(before, { charge, nowUs, units, penalty }) {
      const commit = algorithm.commit(before, charge, nowUs, units, 0, penalty)
      return { ...commit, dateMs: Math.floor(nowUs / 1000) }
    },

    takeBack: (state, open, units) => removeCounted(state, open, units, (_, startMs) => startMs),
    // Windows by their length are a map, which JSON lacks.
    write: (state) => (state ? { state: [...state] } : {}),
    read: ({ state }) => state && new Map(state),
  }
}

/** @param algorithm its windows begin with their first charge */
export function createQuotaKeeper(algorithm: Algorithm<CountedWindowsState>): Keeper<CountedWindowsState> {
  const keeper = createCountKeeper(algorithm)
  return {
    ...keeper,

    charge(before, change, machine, rows) {
      const charged = keeper.charge(before, change, machine, rows)
      const { charge, isOpen, penalty } = change
      if (!isOpen && !penalty) noteKept(charged.state, { charge, dateMs: charged.dateMs }, machine)
      return charged
    },

    keep: noteKept,

    takeBack(state, removed, units, { open: opens, firstKept }) {
      const isWhole = units === removed.permits * removed.cost
      return removeCounted(state, removed, units, (windowMs, startMs) => {
        if (!isWhole) return startMs
        const dates = [firstKept.get(windowMs) ?? 0]
        for (const { charge, dateMs } of opens.values()) {
          if (charge !== removed.charge && charge.limits.some((limit) => limit.windowMs === windowMs))
            dates.push(dateMs)
        }
        const laterMs = Math.min(...dates.filter((ms) => ms >= startMs))
        return Number.isFinite(laterMs) ? laterMs : startMs
      })
    },
  }
}

/** Notes that a charge stays: if all before it in its window are removed, the window begins with it. */
function noteKept(
  state: CountedWindowsState,
  { charge, dateMs }: Pick<Open, 'charge' | 'dateMs'>,
  { firstKept }: MachineState,
): void {
  for (const { windowMs } of charge.limits) {
    const { startMs = Number.POSITIVE_INFINITY } = state.get(windowMs) ?? {}
    const knownMs = firstKept.get(windowMs) ?? 0
    if (startMs <= dateMs && (knownMs < startMs || knownMs > dateMs)) firstKept.set(windowMs, dateMs)
  }
}

/**
 * @param findStart when a window begins then, by its length and its beginning until now
 * @returns the counts as if these units of an open charge had never been charged; undefined if nothing else was
 */
function removeCounted(
  state: CountedWindowsState,
  { charge, dateMs }: Open,
  units: number,
  findStart: (windowMs: number, startMs: number) => number,
): CountedWindowsState | undefined {
  const counts = new Map(state)
  for (const { windowMs } of charge.limits) {
    const count = counts.get(windowMs)
    // Another window has begun since.
    if (!count || dateMs < count.startMs) continue
    const used = count.used - units
    if (used > 0) counts.set(windowMs, { ...count, startMs: findStart(windowMs, count.startMs), used })
    else counts.delete(windowMs)
  }
  return counts.size > 0 ? counts : undefined
}
