import type { LimitMachine, openMachine } from './limit-machine.ts'
import {
  type Call,
  hasTable,
  type ObjectNamespace,
  type ObjectState,
  type ObjectVote,
  openObjects,
  type PreparedCharge,
  type TableCall,
} from './objects.ts'

export interface ObjectEnvironment {
  readonly LIMITS: ObjectNamespace
}

/** Expired counts are deleted at most this often. */
const SWEEP_EVERY_MS = 600_000
/** A sibling that did not answer is asked again after this. */
const ASK_AGAIN_MS = 1_000

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
  #openMachine: typeof openMachine | undefined
  #machine: LimitMachine | undefined
  #alarmAtMs = 0
  readonly #held = new Map<PreparedCharge, PromiseWithResolvers<ObjectVote>>()
  /** Wakes the machine when an answer, or a question to siblings, is due. */
  #timer: ReturnType<typeof setTimeout> | undefined
  #asking: LimitMachine | undefined

  constructor({ storage }: ObjectState, env: ObjectEnvironment) {
    this.#storage = storage
    this.#env = env
  }

  async fetch(request: Request): Promise<Response> {
    const call = (await request.json()) as Call | TableCall
    if (isTableCall(call)) return Response.json(await this.#callTable(call))
    const [name, argument] = call
    return Response.json(
      (await this.#change((machine, nowUs) => {
        switch (name) {
          case 'reserve':
            return machine.reserve(argument, nowUs) ?? this.#hold(argument)
          case 'close':
            return machine.close(argument, nowUs)
          case 'inquire':
            return machine.inquire(argument, nowUs)
          case 'correct':
            for (const correction of argument) machine.correct(correction, nowUs)
        }
      })) ?? null,
    )
  }

  /** Deletes what has expired. */
  async alarm(): Promise<void> {
    if (hasTable(this.#storage.sql, 'counted')) return this.#sweep()
    await this.#change((machine, nowUs) => {
      this.#alarmAtMs = 0
      if (!machine.isOverAt(nowUs)) return
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
    const { CounterTable } = await import('./tables.ts')
    const nextMs = new CounterTable(this.#storage.sql, Date.now()).sweep()
    if (nextMs === undefined) await this.#storage.deleteAll()
    else await this.#storage.setAlarm(Math.max(nextMs + 1, Date.now() + SWEEP_EVERY_MS))
  }

  async #change<T>(change: (machine: LimitMachine, nowUs: number) => T): Promise<Awaited<T>> {
    // A Worker without objects need not load their code.
    this.#openMachine ??= (await import('./limit-machine.ts')).openMachine
    // No other call comes in between from here on.
    let machine = this.#machine
    if (!machine) {
      machine = this.#openMachine(this.#storage.sql)
      this.#machine = machine
      this.#alarmAtMs = machine.alarmAtMs
    }
    let result: T
    try {
      const nowUs = readClock()
      result = change(machine, nowUs)
      this.#answer(machine, nowUs)
    } catch (error) {
      this.#fail(error)
      throw error
    }
    return await result
  }

  #fail(error: unknown): void {
    // It may know more than it has written.
    this.#dropMachine()
    for (const { reject } of this.#held.values()) reject(error)
    this.#held.clear()
  }

  #dropMachine(): void {
    this.#machine = undefined
    clearTimeout(this.#timer)
  }

  #hold(reservation: PreparedCharge): Promise<ObjectVote> {
    const held = Promise.withResolvers<ObjectVote>()
    this.#held.set(reservation, held)
    // It may fail in the very call that was to wait for it.
    held.promise.catch(() => {})
    return held.promise
  }

  /** Answers those whose wait is over, and sets the alarm and the timer. */
  #answer(machine: LimitMachine, nowUs: number): void {
    for (const { reservation, vote } of machine.answers(nowUs)) {
      this.#held.get(reservation)?.resolve(vote)
      this.#held.delete(reservation)
    }
    if (this.#machine !== machine) return
    if (machine.alarmAtMs !== this.#alarmAtMs) {
      this.#alarmAtMs = machine.alarmAtMs
      void this.#storage.setAlarm(this.#alarmAtMs)
    }
    clearTimeout(this.#timer)
    const { waitsUntilMs = Number.POSITIVE_INFINITY, asksAtMs = Number.POSITIVE_INFINITY } = machine
    const nowMs = Math.floor(nowUs / 1000)
    const dueMs = Math.max(nowMs + 1, Math.min(waitsUntilMs, this.#asking === machine ? waitsUntilMs : asksAtMs))
    if (dueMs < Number.POSITIVE_INFINITY) this.#timer = setTimeout(() => this.#wake(machine, dueMs), dueMs - nowMs)
  }

  async #wake(machine: LimitMachine, dueMs: number): Promise<void> {
    try {
      machine.reach(readClock(dueMs))
      const isDue = this.#asking !== machine && (machine.asksAtMs ?? Number.POSITIVE_INFINITY) <= dueMs
      if (isDue) await this.#ask(machine)
      if (this.#machine === machine) this.#answer(machine, readClock())
    } catch (error) {
      if (this.#machine === machine) this.#fail(error)
    }
  }

  /** Voids open charges whose end has not come, if a sibling has not granted them. */
  async #ask(machine: LimitMachine): Promise<void> {
    this.#asking = machine
    const overdue = machine.overdue(readClock())
    this.#answer(machine, readClock())
    const objects = openObjects(this.#env.LIMITS)
    const ask = async ({ id, siblings }: { readonly id: number; readonly siblings: readonly string[] }) => {
      const answers = await Promise.allSettled(siblings.map((key) => objects.of(key).inquire(id)))
      // It may have failed meanwhile, and another machine may have written since.
      if (this.#machine !== machine) return
      const isVoid = answers.some((answer) => answer.status === 'fulfilled' && !answer.value)
      const areGranted = answers.every((answer) => answer.status === 'fulfilled' && answer.value)
      if (isVoid || areGranted) machine.learn(id, areGranted, readClock())
    }
    await Promise.all(overdue.map(ask))
    if (this.#machine === machine) this.#answer(machine, readClock())
    await new Promise((resolve) => setTimeout(resolve, ASK_AGAIN_MS))
    if (this.#asking === machine) this.#asking = undefined
  }
}

function isTableCall(call: Call | TableCall): call is TableCall {
  return call[0] === 'documents' || call[0] === 'counters'
}
