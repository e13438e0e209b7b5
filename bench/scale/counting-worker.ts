/**
 * The gateway's Durable Objects, behind `POST /?name=<key>`, which count what they are billed for: `GET /` answers how many
 * rows they have written, alarms included.
 */

import { LimitObject as Base, type ObjectEnvironment } from '../../src/core/store/durable-object/limit-object.ts'
import type { ObjectState } from '../../src/core/store/durable-object/objects.ts'

interface State {
  readonly storage: Omit<ObjectState['storage'], 'sql'> & {
    readonly sql: { exec(query: string, ...values: readonly (string | number)[]): Cursor }
  }
}

interface Cursor extends Iterable<Record<string, unknown>> {
  readonly rowsWritten: number
}

/** All objects count here: they share this isolate. */
let rowsWritten = 0

export class LimitObject extends Base {
  constructor({ storage }: State, env: ObjectEnvironment) {
    const exec = (query: string, ...values: readonly (string | number)[]) => {
      const cursor = storage.sql.exec(query, ...values)
      rowsWritten += cursor.rowsWritten
      return cursor
    }
    const setAlarm = (atMs: number) => {
      rowsWritten++
      return storage.setAlarm(atMs)
    }
    const getAlarm = () => storage.getAlarm()
    const deleteAll = () => storage.deleteAll()
    const transactionSync = <T>(work: () => T) => storage.transactionSync(work)
    super({ storage: { sql: { exec }, setAlarm, getAlarm, deleteAll, transactionSync } }, env)
  }
}

export default {
  async fetch(request: Request, { LIMITS }: ObjectEnvironment): Promise<Response> {
    if (request.method === 'GET') return Response.json(rowsWritten)
    const name = new URL(request.url).searchParams.get('name') ?? ''
    const init = { method: 'POST', body: await request.text() }
    return Response.json(await (await LIMITS.get(LIMITS.idFromName(name)).fetch('https://object', init)).json())
  },
}
