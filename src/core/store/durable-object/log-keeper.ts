/** Keeps exact logs. Their older entries are in pages, so that a charge rewrites few; a charge is taken back by its date. */

import type { Algorithm } from '../../algorithms/algorithm.ts'
import { findLongestMs } from '../../algorithms/sliding-window.ts'
import { WindowLog } from '../../algorithms/window-log.ts'
import type { Keeper, MachineState } from './machine-state.ts'
import { addEntry, deleteBefore, forEachPair, type Rows, removeUnits, writePages } from './rows.ts'

export function createLogKeeper(algorithm: Algorithm<WindowLog>): Keeper<WindowLog> {
  return {
    charge(before, { charge, nowUs, units, leaseMs, penalty, isOpen }, machine, rows) {
      if (!before) dropLog(machine, rows)
      // If this is taken back, other limits may still need older entries.
      else before.keepsAll = isOpen
      const commit = algorithm.commit(before, charge, nowUs, units, leaseMs, penalty)
      const log = commit.state
      log.keepsAll = false
      const dateMs = log.newestMs
      if (!penalty) addEntry(machine.log, dateMs, units)
      deleteBefore(machine.log, log.oldestMs, rows)
      writePages(machine.log, rows)
      return { ...commit, dateMs }
    },

    takeBack(log, { dateMs }, units, machine, rows) {
      removeUnits(machine.log, log, dateMs, units, rows)
      if (log.size > 0 || log.penalty) return log
      dropLog(machine, rows)
      return undefined
    },

    trim(log, charge, nowMs, machine, rows) {
      log.dropUntil(nowMs - findLongestMs(charge))
      deleteBefore(machine.log, log.oldestMs, rows)
    },

    countUnits: ({ total, before }) => total - before,

    write(log, { log: { tail } }) {
      if (!log) return {}
      const { keptMs, penaltyMs, penalty, size } = log
      return { log: { keptMs, penaltyMs, penalty, entries: tail, live: size } }
    },

    read({ log: stored }, machine, older) {
      if (!stored) return undefined
      const { keptMs, penaltyMs, penalty, entries, live = Number.POSITIVE_INFINITY } = stored
      machine.log.tail = [...entries]
      const log = new WindowLog()
      forEachPair([...older, ...entries], (dateMs, units) => log.add(dateMs, units))
      log.dropAllBut(live)
      return Object.assign(log, { keptMs, penaltyMs, penalty })
    },
  }
}

function dropLog({ log }: MachineState, rows: Rows): void {
  deleteBefore(log, Number.POSITIVE_INFINITY, rows)
}
