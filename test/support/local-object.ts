import { DatabaseSync } from 'node:sqlite'
import { LimitObject, type ObjectEnvironment } from '../../src/core/store/durable-object/limit-object.ts'
import type { ObjectCall } from '../../src/core/store/durable-object/objects.ts'

/** What an object is given, in SQLite, as its platform does it: what is asked for is done at once. */
export class LocalObject {
  readonly #database = new DatabaseSync(':memory:')
  alarmAtMs: number | null = null
  readonly storage = {
    sql: {
      exec: (query: string, ...values: readonly (string | number)[]) =>
        this.#database.prepare(query).all(...values) as Record<string, unknown>[],
    },
    setAlarm: async (atMs: number) => {
      this.alarmAtMs = atMs
    },
    getAlarm: async () => this.alarmAtMs,
    deleteAll: async () => {
      this.#database.exec('DROP TABLE IF EXISTS kept')
      this.alarmAtMs = null
    },
    transactionSync: <T>(work: () => T) => work(),
  }

  open(): LimitObject {
    return new LimitObject(this, {} as ObjectEnvironment)
  }
}

export async function callLocal<T>(object: LimitObject, ...call: ObjectCall): Promise<T> {
  const response = await object.fetch(new Request('https://object', { method: 'POST', body: JSON.stringify(call) }))
  return response.json() as Promise<T>
}
