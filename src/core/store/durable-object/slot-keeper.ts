/** Keeps slots. Each has a row of its own, so that a change rewrites none of the others. */

import { type ConcurrencyState, concurrency, type HeldSlot, releaseSlot } from '../../algorithms/concurrency.ts'
import type { Keeper } from './machine-state.ts'
import { type Rows, SLOTS } from './rows.ts'

export const slotKeeper: Keeper<ConcurrencyState> = {
  charge(before, { charge, nowUs, units }) {
    return { ...concurrency.commit(before, charge, nowUs, units), dateMs: Math.floor(nowUs / 1000) }
  },

  takeBack(state, { slot }, units) {
    const own = state.slots.get(slot)
    if (!own || own.deadlineMs < 0) return state
    if (own.units <= units) releaseSlot(state, slot)
    else state.slots.set(slot, { ...own, units: own.units - units })
    return state
  },

  write(state, { slots: written }, rows) {
    writeSlots(written, state?.slots ?? new Map(), rows)
    return state ? { slotsExpireAtMs: state.expiresAtMs } : {}
  },

  read({ slotsExpireAtMs: expiresAtMs }, { slots }) {
    return expiresAtMs === undefined ? undefined : { slots: new Map(slots), expiresAtMs }
  },
}

function writeSlots(written: Map<number, HeldSlot>, slots: ReadonlyMap<number, HeldSlot>, rows: Rows): void {
  for (const slot of written.keys()) {
    if (slots.has(slot)) continue
    rows.delete(SLOTS, slot)
    written.delete(slot)
  }
  for (const [slot, held] of slots) {
    // A changed one is another object.
    if (written.get(slot) === held) continue
    rows.put(SLOTS, slot, `[${held.units},${held.deadlineMs}]`)
    written.set(slot, held)
  }
}
