import type { LimitMachine } from './limit-machine.ts'
import type { ObjectVote, Reservation } from './messages.ts'
import { type Call, type ObjectNamespace, objectsOf } from './objects-of.ts'
import { hasTable } from './tables/has-table.ts'
import type { TableCall } from './tables/messages.ts'

/** What an object is given by its machine, as far as it is used here. */
export interface ObjectState {
  readonly storage: {
    readonly sql: ObjectDatabase
    setAlarm(atMs: number): Promise<void>
    getAlarm(): Promise<number | null>
    deleteAll(): Promise<void>
    /** Does all of it or nothing. */
    transactionSync<T>(work: () => T): T
  }
}

export interface ObjectDatabase {
  exec(query: string, ...values: readonly (string | number)[]): Iterable<Record<string, unknown>>
}

/** What an object is bound to. */
export interface ObjectEnvironment {
  /** All objects of this class: each asks its siblings by it. */
  readonly LIMITS: ObjectNamespace
}

type OpenMachine = (sql: ObjectDatabase) => LimitMachine

/** What was counted is looked through for what is over at most this often. */
const SWEEP_EVERY_MS = 600_000
/** Between two questions to a sibling that did not answer. */
const ASK_AGAIN_MS = 1_000

/**
 * @param nowMs what the clock shows, which is whole milliseconds
 * @returns the latest that it may be by then, in microseconds: a date is thus rounded up, and leaves no window early
 */
export function readClock(nowMs = Date.now()): number {
  return nowMs * 1000 + 999
}

/**
 * Holds the state of one key, as a Durable Object; or, under a name that no key has, what all isolates share otherwise:
 * see `tables/`. Each call runs from its begin to its end without another, and what it
 * has written is on disk before its answer leaves.
 */
export class LimitObject {
  readonly #storage: ObjectState['storage']
  readonly #env: ObjectEnvironment
  #openMachine: OpenMachine | undefined
  #machine: LimitMachine | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #alarmAtMs = 0
  /** Calls whose answers are held back. */
  readonly #held = new Map<Reservation, { resolve(vote: ObjectVote): void; reject(error: unknown): void }>()
  #answerTimer: ReturnType<typeof setTimeout> | undefined

  constructor({ storage }: ObjectState, env: ObjectEnvironment) {
    this.#storage = storage
    this.#env = env
  }

  async fetch(request: Request): Promise<Response> {
    const call = (await request.json()) as Call | TableCall
    if (isTableCall(call)) return Response.json(await this.#answer(call))
    const [name, argument] = call
    return Response.json(
      (await this.#change((machine, nowUs) => {
        switch (name) {
          case 'reserve':
            return machine.reserve(argument, nowUs) ?? this.#later(argument)
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

  /** Deletes what has run out. */
  async alarm(): Promise<void> {
    if (hasTable(this.#storage.sql, 'counted')) return this.#sweep()
    await this.#change((machine, nowUs) => {
      // It has gone off.
      this.#alarmAtMs = 0
      if (!machine.isOverAt(nowUs)) return
      this.#machine = undefined
      clearTimeout(this.#timer)
      this.#timer = undefined
      // At once: what is charged by a call that comes now must stay.
      return this.#storage.deleteAll()
    })
  }

  async #answer(call: TableCall): Promise<unknown> {
    const { answer } = await import('./tables/answer.ts')
    // Before anything is there that must go some day.
    if (call[1] === 'add') {
      const [sweepAtMs, alarmAtMs] = [Date.now() + SWEEP_EVERY_MS, await this.#storage.getAlarm()]
      // What was left at the last sweep may last for weeks.
      if (alarmAtMs === null || alarmAtMs > sweepAtMs) await this.#storage.setAlarm(sweepAtMs)
    }
    return this.#storage.transactionSync(() => answer(call, this.#storage.sql, Date.now()))
  }

  async #sweep(): Promise<void> {
    const { sweep } = await import('./tables/answer.ts')
    const nextMs = sweep(this.#storage.sql, Date.now())
    if (nextMs === undefined) await this.#storage.deleteAll()
    else await this.#storage.setAlarm(Math.max(nextMs + 1, Date.now() + SWEEP_EVERY_MS))
  }

  async #change<T>(change: (machine: LimitMachine, nowUs: number) => T): Promise<Awaited<T>> {
    // A Worker that asks no objects need not read all that they are made of.
    this.#openMachine ??= (await import('./open-machine.ts')).openMachine
    // From here on, no other call comes in between.
    const machine = this.#machine ?? this.#open(this.#openMachine)
    let result: T
    try {
      const nowUs = readClock()
      result = change(machine, nowUs)
      this.#answerWaiting(machine, nowUs)
    } catch (error) {
      this.#fail(error)
      throw error
    }
    if (this.#machine !== machine) return await result
    if (machine.alarmAtMs !== this.#alarmAtMs) {
      this.#alarmAtMs = machine.alarmAtMs
      void this.#storage.setAlarm(this.#alarmAtMs)
    }
    this.#askLater(machine)
    return await result
  }

  #fail(error: unknown): void {
    // What it knows may be more than what it has written.
    this.#machine = undefined
    clearTimeout(this.#timer)
    this.#timer = undefined
    clearTimeout(this.#answerTimer)
    this.#answerTimer = undefined
    for (const { reject } of this.#held.values()) reject(error)
    this.#held.clear()
  }

  #later(reservation: Reservation): Promise<ObjectVote> {
    const { promise, resolve, reject } = Promise.withResolvers<ObjectVote>()
    this.#held.set(reservation, { resolve, reject })
    // It may fail in the very call that was to wait for it.
    promise.catch(() => {})
    return promise
  }

  /** Answers those who need wait no longer, and wakes up for the others. */
  #answerWaiting(machine: LimitMachine, nowUs: number): void {
    for (const { reservation, vote } of machine.answers(nowUs)) {
      this.#held.get(reservation)?.resolve(vote)
      this.#held.delete(reservation)
    }
    clearTimeout(this.#answerTimer)
    const { waitsUntilMs } = machine
    if (waitsUntilMs === undefined) {
      this.#answerTimer = undefined
      return
    }
    const nowMs = Math.floor(nowUs / 1000)
    const dueMs = Math.max(nowMs + 1, waitsUntilMs)
    const wake = () => void this.#change((woken) => woken === machine && woken.reach(readClock(dueMs))).catch(() => {})
    this.#answerTimer = setTimeout(wake, dueMs - nowMs)
  }

  #open(openMachine: OpenMachine): LimitMachine {
    const machine = openMachine(this.#storage.sql)
    this.#machine = machine
    this.#alarmAtMs = machine.alarmAtMs
    return machine
  }

  #askLater(machine: LimitMachine): void {
    const { asksAtMs } = machine
    if (asksAtMs === undefined) {
      clearTimeout(this.#timer)
      this.#timer = undefined
    } else if (this.#timer === undefined) {
      const nowMs = Date.now()
      const dueMs = Math.max(nowMs + ASK_AGAIN_MS, asksAtMs)
      const ask = () => {
        machine.reach(readClock(dueMs))
        this.#ask(machine).catch((error: unknown) => {
          if (this.#machine === machine) this.#fail(error)
        })
      }
      this.#timer = setTimeout(ask, dueMs - nowMs)
    }
  }

  /** What nobody has closed is voided, if a sibling has not granted it. */
  async #ask(machine: LimitMachine): Promise<void> {
    const objects = objectsOf(this.#env.LIMITS)
    const ask = async ({ id, siblings }: { readonly id: number; readonly siblings: readonly string[] }) => {
      const answers = await Promise.allSettled(siblings.map((key) => objects.of(key).inquire(id)))
      // It may have failed meanwhile, and another one may have written since.
      if (this.#machine !== machine) return
      const isVoid = answers.some((answer) => answer.status === 'fulfilled' && !answer.value)
      const areGranted = answers.every((answer) => answer.status === 'fulfilled' && answer.value)
      if (isVoid || areGranted) machine.learn(id, areGranted, readClock())
    }
    await Promise.all(machine.overdue(readClock()).map(ask))
    if (this.#machine !== machine) return
    this.#timer = undefined
    this.#answerWaiting(machine, readClock())
    this.#askLater(machine)
  }
}

function isTableCall(call: Call | TableCall): call is TableCall {
  return call[0] === 'documents' || call[0] === 'counters'
}
