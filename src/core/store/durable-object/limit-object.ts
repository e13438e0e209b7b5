/** The Durable Object: runs one machine on its storage, one call after the other, and its alarm. */

import { createSteadyClock } from '../../runtime/clocks.ts'
import { waitAtMost } from '../../runtime/sleep.ts'
import { type LimitMachine, openMachine } from './limit-machine.ts'
import {
  hasTable,
  type ObjectCall,
  type ObjectNamespace,
  type ObjectState,
  type ObjectVote,
  openObjects,
  type PreparedCharge,
} from './objects.ts'
import type { TableCall } from './tables.ts'

export interface ObjectEnvironment {
  readonly LIMITS: ObjectNamespace
}

/** Expired counts are deleted at most this often. */
const SWEEP_EVERY_MS = 600_000
/** While charges are open, siblings are asked this often about those that are overdue. */
const ASK_EVERY_MS = 2_500

/**
 * @param nowMs whole milliseconds, as the clock shows them
 * @returns the latest that it may be then, in microseconds: a date is thus rounded up, and leaves no window early
 */
export function readClock(nowMs = Date.now()): number {
  return nowMs * 1000 + 999
}

/**
 * A Durable Object that holds the state of one key; or, under a name that no key has, a document or counts that all
 * isolates share. Each call runs from beginning to end without another, and what it has written is on disk before its
 * answer leaves.
 */
export class LimitObject {
  readonly #storage: ObjectState['storage']
  readonly #env: ObjectEnvironment
  #machine: LimitMachine | undefined
  #alarmAtMs = 0
  /** Refusals that are held back, because open charges may be given back. */
  readonly #waiting = new Set<PreparedCharge>()
  /** Resolves when an open charge may have been given back. */
  #changed = createSignal()
  /** Reads the time that went by: often, because a clock that steps back hides what went by since the last reading. */
  readonly #readPassedMs = createSteadyClock(() => Date.now())
  /** Set while charges are open, and while siblings are asked. */
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor({ storage }: ObjectState, env: ObjectEnvironment) {
    this.#storage = storage
    this.#env = env
  }

  async fetch(request: Request): Promise<Response> {
    const call = (await request.json()) as ObjectCall | TableCall
    return Response.json((await this.#answer(call)) ?? null)
  }

  #answer(call: ObjectCall | TableCall): Promise<unknown> {
    switch (call[0]) {
      case 'reserve':
        return this.#reserve(call[1])
      case 'close':
        return this.#change((machine, nowUs) => machine.close(call[1], nowUs))
      case 'inquire':
        return this.#change((machine, nowUs) => machine.inquire(call[1], nowUs))
      case 'correct':
        return this.#change((machine, nowUs) => machine.correct(call[1], nowUs))
      default:
        return this.#callTable(call)
    }
  }

  /** Deletes what has expired. */
  async alarm(): Promise<void> {
    if (hasTable(this.#storage.sql, 'counted')) return this.#sweep()
    await this.#change((machine, nowUs) => {
      this.#alarmAtMs = 0
      if (machine.rearm(nowUs)) return
      this.#dropMachine()
      // Nothing may come in between: a call that comes now must keep its charge.
      return this.#storage.deleteAll()
    })
  }

  async #callTable(call: TableCall): Promise<unknown> {
    const { callTable } = await import('./tables.ts')
    // The alarm is set before anything is there that must go some day.
    if (call[1] === 'add') {
      const [sweepAtMs, alarmAtMs] = [Date.now() + SWEEP_EVERY_MS, await this.#storage.getAlarm()]
      // The alarm of the last sweep may be weeks away.
      if (alarmAtMs === null || alarmAtMs > sweepAtMs) await this.#storage.setAlarm(sweepAtMs)
    }
    return this.#storage.transactionSync(() => callTable(call, this.#storage.sql, Date.now()))
  }

  async #sweep(): Promise<void> {
    const { openCounterTable } = await import('./tables.ts')
    const nextMs = openCounterTable(this.#storage.sql, Date.now()).sweep()
    if (nextMs === undefined) await this.#storage.deleteAll()
    else await this.#storage.setAlarm(Math.max(nextMs + 1, Date.now() + SWEEP_EVERY_MS))
  }

  /** Holds a refusal back while another answer may follow. Whoever came first is decided first again. */
  async #reserve(reservation: PreparedCharge): Promise<ObjectVote> {
    let leftMs = reservation.patienceMs ?? 0
    try {
      for (;;) {
        const startMs = this.#readPassedMs()
        const { vote, waitMs, changed } = await this.#change((machine, nowUs) => {
          const vote = machine.reserve(reservation, nowUs)
          const waitMs = Math.min(leftMs, machine.findPatienceMs(reservation, vote, this.#waiting))
          if (waitMs > 0) this.#waiting.add(reservation)
          return { vote, waitMs, changed: this.#changed.promise }
        }, false)
        if (waitMs <= 0) return vote
        await waitAtMost(changed, waitMs)
        leftMs -= this.#readPassedMs() - startMs
      }
    } finally {
      this.#waiting.delete(reservation)
    }
  }

  /** @param mayGiveBack whether those who wait are to be decided again */
  async #change<T>(change: (machine: LimitMachine, nowUs: number) => T, mayGiveBack = true): Promise<Awaited<T>> {
    // No other call comes in between.
    let machine = this.#machine
    if (!machine) {
      machine = openMachine(this.#storage.sql)
      this.#machine = machine
      this.#alarmAtMs = machine.state.alarmAtMs
    }
    try {
      this.#readPassedMs()
      const result = change(machine, readClock())
      if (this.#machine === machine) this.#setTimers(machine)
      if (mayGiveBack) {
        this.#changed.resolve()
        this.#changed = createSignal()
      }
      return await result
    } catch (error) {
      // It may know more than it has written.
      if (this.#machine === machine) this.#dropMachine()
      throw error
    }
  }

  #dropMachine(): void {
    this.#machine = undefined
    this.#clearTimer()
  }

  #setTimers(machine: LimitMachine): void {
    if (machine.state.alarmAtMs !== this.#alarmAtMs) {
      this.#alarmAtMs = machine.state.alarmAtMs
      void this.#storage.setAlarm(this.#alarmAtMs)
    }
    if (machine.state.open.size === 0) this.#clearTimer()
    else if (this.#timer === undefined) {
      const dueUs = readClock() + ASK_EVERY_MS * 1000
      const timer = setTimeout(() => this.#ask(machine, dueUs).then(askAgain, () => {}), ASK_EVERY_MS)
      const askAgain = () => {
        if (this.#timer !== timer) return
        this.#timer = undefined
        this.#setTimers(machine)
      }
      this.#timer = timer
    }
  }

  #clearTimer(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  /** Voids open charges whose end has not come, if a sibling has not granted them. */
  async #ask(machine: LimitMachine, dueUs: number): Promise<void> {
    const overdue = await this.#change((machine, nowUs) => {
      machine.reach(dueUs)
      return machine.settleOverdue(nowUs)
    })
    const objects = openObjects(this.#env.LIMITS)
    const ask = async ([id, siblings]: (typeof overdue)[number]) => {
      const inquiries = siblings.map((key) => objects.inquire(key, id))
      const answers = await Promise.all(inquiries.map((answer) => answer.catch(() => undefined)))
      // It may have failed meanwhile, and another machine may have written since.
      if (this.#machine !== machine || !answers.includes(false)) return
      await this.#change((machine, nowUs) => machine.void(id, nowUs))
    }
    await Promise.all(overdue.map(ask))
  }
}

/** `Promise.withResolvers` is missing in Node 20. */
function createSignal() {
  let resolve = () => {}
  const promise = new Promise<void>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}
