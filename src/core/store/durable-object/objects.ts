/** The messages between the store and its objects. */
import type { Correction } from '../../algorithms/corrections.ts'
import type { Evaluation } from '../../algorithms/decide.ts'
import type { DecisionRequest, StoreCharge } from '../../model/charge.ts'
import { StoreError } from '../../model/store.ts'
import { Deadlines, TOO_LATE } from '../../runtime/call-context.ts'

export interface Shared {
  readonly id: number
  /** Keys of the other objects that can refuse it and remember what they granted. */
  readonly siblings: readonly string[]
  /** A new identity leads to a second round, and to no admission before this object has heard its end. */
  readonly precedesNewIdentities: boolean
}

export interface PreparedCharge extends Pick<DecisionRequest, 'action' | 'permits' | 'leaseMs'> {
  readonly charge: StoreCharge
  /** Missing if nothing can take the charge back. */
  readonly shared?: Shared
  /**
   * The answer may be held back for so long, in milliseconds, while the object refuses only because of units that others
   * have reserved and may give back. Left out, it is not held back.
   */
  readonly patienceMs?: number
}

/** The usage is that before the charge. */
export interface ObjectVote extends Evaluation {
  readonly nowMs: number
  readonly charged: number
  /** Units charged in addition, as long as any permits are, because they may be spent later. */
  readonly forfeited: number
  /** Nothing was ever charged here for this identity, or nothing that was admitted. */
  readonly isNew: boolean
  /** Others may give back what they have reserved: another answer may follow. */
  readonly isProvisional: boolean
  /** The decision was given up before, or too many others are open here: it cannot be granted. */
  readonly isVoid: boolean
}

export interface CommitOrAbort {
  readonly id: number
  /** Permits that stay charged; 0 cancels. */
  readonly permits: number
  /** The rest may still be cancelled: another end follows. */
  readonly isPartial?: true
}

export type ObjectCorrection = Correction | { readonly kind: 'delete' }

export interface RemoteObjects {
  reserve(key: string, reservation: PreparedCharge): Promise<ObjectVote>
  /** @returns whether the charge stands */
  close(key: string, closing: CommitOrAbort): Promise<boolean>
  /** A sibling asks. @returns whether the decision was granted there; if not, it never will be */
  inquire(key: string, id: number): Promise<boolean>
  correct(key: string, corrections: readonly ObjectCorrection[]): Promise<void>
}

export type ObjectCall = {
  [Name in keyof RemoteObjects]: readonly [name: Name, argument: Parameters<RemoteObjects[Name]>[1]]
}[keyof RemoteObjects]

export interface ObjectNamespace {
  idFromName(name: string): unknown
  get(id: unknown): {
    fetch(url: string, init: { method: string; body: string }): Promise<{ status: number; json(): Promise<unknown> }>
  }
}

export interface ObjectState {
  readonly storage: {
    readonly sql: ObjectDatabase
    setAlarm(atMs: number): Promise<void>
    getAlarm(): Promise<number | null>
    deleteAll(): Promise<void>
    transactionSync<T>(work: () => T): T
  }
}

export interface ObjectDatabase {
  exec(query: string, ...values: readonly (string | number)[]): Iterable<Record<string, unknown>>
}

/** Reads rows. SQLite tells nothing of their types: the query says which columns they have. */
export function select<Row>(sql: ObjectDatabase, query: string, ...values: readonly (string | number)[]): Row[] {
  return [...sql.exec(query, ...values)] as never[]
}

export function hasTable(sql: ObjectDatabase, name: string): boolean {
  return select(sql, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", name).length > 0
}

export function openObjects(namespace: ObjectNamespace): RemoteObjects {
  // biome-ignore lint/suspicious/noExplicitAny: the other side is the class `LimitObject`
  const call = (key: string, ...sent: ObjectCall): Promise<any> => callObject(namespace, key, sent)
  return {
    reserve: (key, reservation) => call(key, 'reserve', reservation),
    close: (key, closing) => call(key, 'close', closing),
    inquire: (key, id) => call(key, 'inquire', id),
    correct: (key, corrections) => call(key, 'correct', corrections),
  }
}

export const TOO_LATE_MESSAGE = 'a Durable Object did not answer within the deadline'

/** The message does not repeat what an object throws: that may hold what it was asked. */
export function createCallError(): StoreError {
  return new StoreError('a Durable Object could not be reached, or has failed')
}

/** @throws {StoreError} whether it was carried out is then unknown */
export async function callWithin<T>(timeoutMs: number, work: Promise<T>): Promise<T> {
  const calling = work.catch(() => {
    throw createCallError()
  })
  const answer = await Deadlines.createForOne().waitWithin(timeoutMs, calling)
  if (answer === TOO_LATE) throw new StoreError(TOO_LATE_MESSAGE)
  return answer
}

/**
 * Calls one object. By fetch, because a class that is called by its methods must extend one that only Workers have.
 * @returns its answer; null for none
 */
export async function callObject(namespace: ObjectNamespace, name: string, sent: readonly unknown[]): Promise<unknown> {
  const body = JSON.stringify(sent)
  const response = await namespace.get(namespace.idFromName(name)).fetch('https://object', { method: 'POST', body })
  if (response.status !== 200) throw new Error(`a Durable Object answered ${response.status}`)
  return response.json()
}
