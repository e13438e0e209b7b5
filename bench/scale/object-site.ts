/** Durable Objects in virtual time: the real class, with a database, alarms and a bill as Cloudflare gives them. */
import { LimitObject } from '../../src/core/store/durable-object/limit-object.ts'
import type { ObjectDatabase, ObjectNamespace } from '../../src/core/store/durable-object/objects.ts'
// An object imports it with its first call. It is imported here, so that this takes no time.
import '../../src/core/store/durable-object/limit-machine.ts'
import { computeRoundTripMs, type Place } from './map.ts'
import { Server } from './server.ts'
import type { Owner, VirtualTime } from './virtual-time.ts'

/** "A soft limit of 1,000 requests per second": https://developers.cloudflare.com/durable-objects/platform/limits/ */
const SERVICE_MS = 1
/** What is written is copied to other machines before the answer leaves. How long that takes is not published: assumed. */
const COMMIT_MS = 5
/** "Billed for the 128 MB of memory": https://developers.cloudflare.com/durable-objects/platform/pricing/ */
const GB = 0.128

export interface ObjectOptions {
  readonly time: VirtualTime
  readonly random: () => number
  /** Calls that are not simulated, for each that is, to the object of a key. */
  readonly countOthers: (key: string) => number
  /** How long it takes to look around the world whether an object of that name is elsewhere, when there is none. */
  readonly lookMs: number
}

type Body = { readonly method: string; readonly body: string }

/** What objects are billed for. */
export interface ObjectBill {
  /** Calls of Workers and of other objects, and alarms. */
  requests: number
  rowsWritten: number
  rowsRead: number
  gbSeconds: number
}

/** All Durable Objects of a binding. */
export class ObjectSite {
  readonly #bill: ObjectBill = { requests: 0, rowsWritten: 0, rowsRead: 0, gbSeconds: 0 }
  /** Calls that found no object: it is made, after a look around the world whether it is elsewhere. */
  made = 0
  readonly #options: ObjectOptions
  readonly #objects = new Map<string, HostedObject>()

  constructor(options: ObjectOptions) {
    this.#options = options
  }

  /** What all objects have been billed for by now. */
  readBill(): Readonly<ObjectBill> {
    for (const object of this.#objects.values()) object.bill()
    return { ...this.#bill }
  }

  /** Calls to the object of a key so far; 0 if there is none. */
  countCalls(key: string): number {
    return this.#objects.get(key)?.calls ?? 0
  }

  /**
   * The binding, as a Worker or an object has it that runs at a place.
   * @param awayMs round trip to all objects, instead of by where they are
   */
  namespaceAt(place: Place, roundTripMs?: number): ObjectNamespace {
    return {
      idFromName: (name) => name,
      get: (id) => ({ fetch: (_, init) => this.#fetch(id as string, init, place, roundTripMs) }),
    }
  }

  async #fetch(key: string, init: Body, from: Place, roundTripMs?: number): Promise<Answer> {
    const { time } = this.#options
    this.#bill.requests++
    const lookMs = this.#objects.has(key) ? 0 : this.#options.lookMs
    const object = this.#objectOf(key, from)
    object.calls++
    const oneWayMs = (roundTripMs ?? computeRoundTripMs(from, object.place)) / 2
    return new Promise((resolve, reject) => {
      time.quietlyAt(time.nowMs + lookMs + oneWayMs, () => {
        const isServed = object.arrive((answer, readyMs) => time.at(readyMs + oneWayMs, () => resolve(answer)), init)
        if (!isServed) time.at(time.nowMs + oneWayMs, () => reject(new Error('Durable Object is overloaded')))
      })
    })
  }

  /** It is made near who asks first. */
  #objectOf(key: string, from: Place): HostedObject {
    let object = this.#objects.get(key)
    if (!object) {
      this.made++
      const place = { ...from.metro, metro: from.metro }
      const host = { ...this.#options, bill: this.#bill, LIMITS: this.namespaceAt(place) }
      object = new HostedObject(place, host, this.#options.countOthers(key), () => this.#objects.delete(key))
      this.#objects.set(key, object)
    }
    return object
  }
}

interface Host extends Pick<ObjectOptions, 'time' | 'random'> {
  readonly bill: ObjectBill
  readonly LIMITS: ObjectNamespace
}

type Answer = { readonly status: number; json(): Promise<unknown> }

/** One object where it runs: its thread, its database, its alarm, and how long it is kept in memory. */
class HostedObject implements Owner {
  calls = 0
  readonly place: Place
  readonly #host: Host
  readonly #server: Server
  readonly #object: LimitObject
  /** Rows by kind and number, and whether there is a table for them. */
  readonly #rows = new Map<string, readonly [kind: number, n: number, body: string]>()
  #isTableMade = false
  /** Rows so far. */
  #written = 0
  #alarm = 0
  /** Requests and timers for which it must stay in memory. */
  #holds = 0
  #heldSinceMs = 0

  /** @param isGone is called when it has deleted all that it held */
  constructor(place: Place, host: Host, others: number, isGone: () => void) {
    this.place = place
    this.#host = host
    this.#server = new Server(others, host.random)
    const storage = {
      sql: { exec: (query: string, ...values: readonly (string | number)[]) => this.#exec(query, values) },
      setAlarm: async (atMs: number) => this.#setAlarm(atMs),
      getAlarm: refuseCall,
      transactionSync: refuseCall,
      deleteAll: async () => {
        this.#write(this.#rows.size)
        this.#rows.clear()
        this.#isTableMade = false
        isGone()
      },
    }
    this.#object = new LimitObject({ storage }, host)
  }

  hold(): void {
    if (this.#holds++ === 0) this.#heldSinceMs = this.#host.time.nowMs
  }

  release(): void {
    this.bill()
    this.#holds--
  }

  /** Bills for how long it has been in memory. */
  bill(): void {
    const { time, bill } = this.#host
    if (this.#holds > 0) bill.gbSeconds += ((time.nowMs - this.#heldSinceMs) / 1_000) * GB
    this.#heldSinceMs = time.nowMs
  }

  /** @param reply with the answer, and when it leaves @returns whether it gets a turn */
  arrive(reply: (answer: Answer, readyMs: number) => void, { body }: Body): boolean {
    const { time } = this.#host
    const isServed = this.#server.arrive(time.nowMs, (startMs) => {
      const serve = async () => {
        const before = this.#written
        const answer = await this.#object.fetch({ json: async () => JSON.parse(body) } as Request)
        const commitMs = this.#written > before ? COMMIT_MS : 0
        const readyMs = Math.max(time.nowMs, startMs + SERVICE_MS) + commitMs
        reply(answer, readyMs)
        time.quietlyAt(readyMs, () => this.release())
      }
      time.at(startMs, () => void serve(), this)
      return SERVICE_MS
    })
    if (isServed) this.hold()
    return isServed
  }

  #setAlarm(atMs: number): void {
    const { time, bill } = this.#host
    this.#write()
    const alarm = ++this.#alarm
    const ring = () => {
      if (alarm !== this.#alarm) return
      bill.requests++
      void this.#object.alarm()
    }
    time.at(atMs, ring, this)
  }

  #write(rows = 1): void {
    this.#written += rows
    this.#host.bill.rowsWritten += rows
  }

  #exec(query: string, values: readonly (string | number)[]): ReturnType<ObjectDatabase['exec']> {
    const { bill } = this.#host
    const [kind, n, body] = values as [number, number, string]
    switch (query.slice(0, query.indexOf(' ', 7))) {
      case 'SELECT 1':
        bill.rowsRead++
        return this.#isTableMade && `${query} ${values}`.includes('kept') ? [{}] : []
      case 'SELECT kind,':
        bill.rowsRead += this.#rows.size
        return [...this.#rows.values()]
          .toSorted((a, b) => a[0] - b[0] || a[1] - b[1])
          .map(([kind, n, body]) => ({ kind, n, body }))
      case 'SELECT body': {
        const row = this.#rows.get(`${kind} ${n}`)
        if (!row) return []
        bill.rowsRead++
        return [{ body: row[2] }]
      }
      case 'CREATE TABLE':
        this.#isTableMade = true
        // workerd counts a table as a row, and its key as another.
        this.#write(2)
        return []
      case 'INSERT INTO':
        this.#write()
        this.#rows.set(`${kind} ${n}`, [kind, n, body])
        return []
      case 'DELETE FROM':
        this.#write()
        this.#rows.delete(`${kind} ${n}`)
        return []
      default:
        throw new Error(`the simulated database does not know: ${query}`)
    }
  }
}

/** Objects that hold something other than the state of a key would call it. */
function refuseCall(): never {
  throw new Error('not simulated')
}
