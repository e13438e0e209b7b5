import type { Evaluation } from '../../algorithms/decide.ts'
import type { Charge, DecisionRequest, StoreCharge } from '../../model/charge.ts'
import type { Flush, Period, Resolution, Sketch } from '../counters.ts'
import type { DocumentWrite, VersionId } from '../documents.ts'

/** The messages between deciders and objects. All of it is plain data. */

/** A decision that several objects share, as one of them is told of it. */
export interface Shared {
  /** Number of the decision; no other has it. */
  readonly id: number
  /** The objects that can refuse it and that keep in mind what they granted. */
  readonly siblings: readonly string[]
  /** Whether a new identity leads to a further round, and to no admission before this object has heard its end. */
  readonly hasNewcomers: boolean
}

/** Asks an object to charge its rule at once if it fits. */
export interface PreparedCharge extends Pick<DecisionRequest, 'mode' | 'permits' | 'leaseMs'> {
  readonly rule: StoreCharge
  /** Missing if nothing can take the charge back. */
  readonly shared?: Shared
  /**
   * How long the answer may be held back, in milliseconds, while the rule refuses only because of what others have
   * reserved and may give back. Left out, it is not.
   */
  readonly patienceMs?: number
}

/** What an object answers to a reservation; its usage is that before the charge. */
export interface ObjectVote extends Evaluation {
  /** The object's clock, milliseconds since the Unix epoch. */
  readonly nowMs: number
  /** Permits that it has charged. */
  readonly charged: number
  /** Units charged besides, as long as any permits are, because they may be spent later. */
  readonly forfeited: number
  /** Nothing was ever charged here for this identity, or nothing that has been let through. */
  readonly isNew: boolean
  /** What others have reserved may be given back at any moment: another answer may follow. */
  readonly isProvisional: boolean
  /** The decision was given up before, or too many others are undecided here: it cannot be granted. */
  readonly isVoid: boolean
}

/** The end of a shared decision. */
export interface CommitOrAbort {
  readonly id: number
  /** Permits that stay charged; 0 cancels. */
  readonly permits: number
  /** What stays of it may still be cancelled: another end follows. */
  readonly isProvisional?: true
}

/** Changes what was charged, or what is held. */
export type Correction =
  | { readonly kind: 'release' | 'revoke'; readonly slot: number }
  | { readonly kind: 'renew'; readonly slot: number; readonly windowMs: number }
  | { readonly kind: 'settle'; readonly rule: StoreCharge; readonly units: number; readonly chargedAtMs: number }
  | { readonly kind: 'forget' }

/** The object of one key, as it can be called. */
export interface RemoteObject {
  reserve(reservation: PreparedCharge): Promise<ObjectVote>
  /** @returns whether what was reserved stands */
  close(closing: CommitOrAbort): Promise<boolean>
  /** Asked by a sibling. @returns whether a decision was granted there; if not, it never will be */
  inquire(id: number): Promise<boolean>
  correct(corrections: readonly Correction[]): Promise<void>
}

/** All objects. */
export interface RemoteObjects {
  of(key: string): RemoteObject
}

/** A call to the object of a key, as it is sent. */
export type Call = {
  [Name in keyof RemoteObject]: readonly [name: Name, argument: Parameters<RemoteObject[Name]>[0]]
}[keyof RemoteObject]

/** A call to an object that keeps a document or counts instead of the state of one key. */
export type TableCall =
  | readonly ['documents', 'read', known: VersionId | null]
  | readonly ['documents', 'readVersion', version: number]
  | readonly ['documents', 'history']
  | readonly ['documents', 'write', DocumentWrite]
  | readonly ['counters', 'add', PlainFlush]
  | readonly ['counters', 'read', resolution: Resolution, fromMs: number, toMs: number]
  | readonly ['counters', 'totals']

/** Maps are lists: JSON has none. */
export interface PlainPeriod extends Pick<Period, 'startMs'> {
  readonly counts: readonly PlainCount[]
  readonly sketches: readonly (readonly [name: string, Sketch])[]
}

export type PlainCount = readonly [name: string, count: number]

export interface PlainFlush extends Omit<Flush, 'minutes'> {
  readonly minutes: readonly PlainPeriod[]
}

export function toPlain({ startMs, counts, sketches }: Period): PlainPeriod {
  return { startMs, counts: [...counts], sketches: [...sketches] }
}

export function fromPlain({ startMs, counts, sketches }: PlainPeriod): Period {
  return { startMs, counts: new Map(counts), sketches: new Map(sketches) }
}

/** A binding of Durable Objects, as far as it is used here. */
export interface ObjectNamespace {
  idFromName(name: string): unknown
  get(id: unknown): { fetch(url: string, init: { method: string; body: string }): Promise<ObjectResponse> }
}

interface ObjectResponse {
  readonly status: number
  json(): Promise<unknown>
}

/** The state that the platform hands to an object, as far as it is used here. */
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

export function hasTable(sql: ObjectDatabase, name: string): boolean {
  return [...sql.exec("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", name)].length > 0
}

/** The objects of a binding, each named by its key. */
export function openObjects(namespace: ObjectNamespace): RemoteObjects {
  return {
    of(key) {
      // biome-ignore lint/suspicious/noExplicitAny: the other side is the class `LimitObject`
      const call = (...sent: Call): Promise<any> => callObject(namespace, key, sent)
      return {
        reserve: (reservation) => call('reserve', { ...reservation, rule: withoutPolicy(reservation.rule) }),
        close: (closing) => call('close', closing),
        inquire: (id) => call('inquire', id),
        correct: (corrections) =>
          call(
            'correct',
            corrections.map((one) => (one.kind === 'settle' ? { ...one, rule: withoutPolicy(one.rule) } : one)),
          ),
      }
    },
  }
}

/** An object needs to know no more than what it counts. */
function withoutPolicy(rule: StoreCharge & Partial<Charge>): StoreCharge {
  const { policy: _policy, digest: _digest, route: _route, isUnlimited: _isUnlimited, ...counted } = rule
  return counted
}

/**
 * Calls one object. By fetch, because a class that is called by its methods must extend one that only Workers have.
 * @returns its answer; null for none
 */
export async function callObject(namespace: ObjectNamespace, name: string, sent: Call | TableCall): Promise<unknown> {
  const body = JSON.stringify(sent)
  const response = await namespace.get(namespace.idFromName(name)).fetch('https://object', { method: 'POST', body })
  if (response.status !== 200) throw new Error(`a Durable Object answered ${response.status}`)
  return response.json()
}
