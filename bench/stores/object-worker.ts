/**
 * One Durable Object of the gateway's, which can be filled and evicted. It answers `/fill?entries=<number>`, `/evict`
 * and `/peek`.
 */

import type { StoreCharge } from '../../src/core/model/charge.ts'
import { openMachine } from '../../src/core/store/durable-object/limit-machine.ts'
import { LimitObject as Base, type ObjectEnvironment } from '../../src/core/store/durable-object/limit-object.ts'
import { type ObjectState, openObjects } from '../../src/core/store/durable-object/objects.ts'

const KEY = 'caller'
const LIMIT = 1_000_000
const RULE: StoreCharge = {
  key: KEY,
  algorithm: 'sliding-window',
  limits: [{ limit: LIMIT, windowMs: 3_600_000 }],
  cost: 1,
  mode: 'enforce',
  reserved: 0,
}
/** Between two entries. */
const GAP_US = 2_000

/** What `/peek` answers. */
export interface Peeked {
  /** Units in its window. */
  readonly used: number
  /** Of its database, since the object was made. */
  readonly rowsRead: number
}

interface State {
  readonly storage: Omit<ObjectState['storage'], 'sql'> & { readonly sql: { exec(...args: unknown[]): Cursor } }
  abort(reason: string): void
}

interface Cursor extends Iterable<Record<string, unknown>> {
  readonly rowsRead: number
}

export class LimitObject extends Base {
  readonly #state: State
  readonly #cursors: Cursor[]

  constructor(state: State, env: ObjectEnvironment) {
    const { storage } = state
    const cursors: Cursor[] = []
    const exec = (query: string, ...values: readonly (string | number)[]) => {
      const cursor = storage.sql.exec(query, ...values)
      cursors.push(cursor)
      return cursor
    }
    const getAlarm = () => storage.getAlarm()
    const setAlarm = (atMs: number) => storage.setAlarm(atMs)
    const transactionSync = <T>(work: () => T) => storage.transactionSync(work)
    super(
      { storage: { sql: { exec }, getAlarm, setAlarm, deleteAll: () => storage.deleteAll(), transactionSync } },
      env,
    )
    this.#state = state
    this.#cursors = cursors
  }

  override async fetch(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url)
    switch (pathname) {
      case '/fill':
        return Response.json(this.#fill(Number(searchParams.get('entries'))))
      case '/evict':
        this.#state.abort('evicted')
        return new Response()
      case '/rows':
        return Response.json(this.#cursors.reduce((sum, { rowsRead }) => sum + rowsRead, 0))
      default:
        return super.fetch(request)
    }
  }

  #fill(entries: number): number {
    const machine = openMachine(this.#state.storage.sql)
    const startUs = Date.now() * 1_000 - entries * GAP_US
    let charged = 0
    for (let i = 0; i < entries; i++) {
      charged += machine.reserve({ action: 'take', permits: 1, charge: RULE }, startUs + i * GAP_US)?.charged ?? 0
    }
    return charged
  }
}

export default {
  async fetch(request: Request, { LIMITS }: ObjectEnvironment): Promise<Response> {
    const { pathname, search } = new URL(request.url)
    const ask = (path: string) =>
      LIMITS.get(LIMITS.idFromName(KEY)).fetch(`https://object${path}`, { method: 'POST', body: '' })
    switch (pathname) {
      case '/evict':
        await ask(pathname).catch(() => {})
        return new Response()
      case '/peek': {
        const { usage } = await openObjects(LIMITS).reserve(KEY, { action: 'peek', permits: 1, charge: RULE })
        return Response.json({ used: LIMIT - (usage[0]?.remaining ?? 0), rowsRead: await (await ask('/rows')).json() })
      }
      default:
        return Response.json(await (await ask(pathname + search)).json())
    }
  },
}
