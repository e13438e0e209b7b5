import type { Charge, StoreCharge } from '../../model/charge.ts'
import type { Call, RemoteObjects, TableCall } from './messages.ts'

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
