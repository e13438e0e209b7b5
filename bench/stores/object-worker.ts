/**
 * One Durable Object of the gateway's, which can be filled and evicted. `/fill?entries=<number>` answers how many entries
 * were charged, `/peek` how many units are in the window.
 */
import type { StoreCharge } from '../../src/core/model/charge.ts'
import { openMachine } from '../../src/core/store/durable-object/limit-machine.ts'
import { LimitObject as Base, type ObjectEnvironment } from '../../src/core/store/durable-object/limit-object.ts'
import { type ObjectState, openObjects } from '../../src/core/store/durable-object/objects.ts'

const KEY = 'caller'
const LIMIT = 1_000_000
const CHARGE: StoreCharge = {
  key: KEY,
  algorithm: 'sliding-window',
  limits: [{ limit: LIMIT, windowMs: 3_600_000 }],
  cost: 1,
  mode: 'enforce',
  reserved: 0,
}
/** The time between two entries. */
const GAP_US = 2_000

interface State extends ObjectState {
  abort(reason: string): void
}

export class LimitObject extends Base {
  readonly #state: State

  constructor(state: State, env: ObjectEnvironment) {
    super(state, env)
    this.#state = state
  }

  override async fetch(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url)
    switch (pathname) {
      case '/fill':
        return Response.json(this.#fill(Number(searchParams.get('entries'))))
      case '/evict':
        this.#state.abort('evicted')
        return new Response()
      default:
        return super.fetch(request)
    }
  }

  #fill(entries: number): number {
    const machine = openMachine(this.#state.storage.sql)
    const startUs = Date.now() * 1_000 - entries * GAP_US
    let charged = 0
    for (let i = 0; i < entries; i++) {
      charged += machine.reserve({ action: 'take', permits: 1, charge: CHARGE }, startUs + i * GAP_US)?.charged ?? 0
    }
    return charged
  }
}

export default {
  async fetch(request: Request, { LIMITS }: ObjectEnvironment): Promise<Response> {
    const { pathname, search } = new URL(request.url)
    if (pathname === '/peek') {
      const { usage } = await openObjects(LIMITS).reserve(KEY, { action: 'peek', permits: 1, charge: CHARGE })
      return Response.json(LIMIT - (usage[0]?.remaining ?? 0))
    }
    const object = LIMITS.get(LIMITS.idFromName(KEY))
    const answer = object.fetch(`https://object${pathname}${search}`, { method: 'POST', body: '' })
    // An object that is evicted answers nothing.
    return Response.json(await answer.then((response) => response.json()).catch(() => null))
  },
}
