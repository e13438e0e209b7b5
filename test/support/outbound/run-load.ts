/** Calls a model of a server without pause, in virtual time, and measures what a client makes of its limits. */
import { VirtualClock } from '../virtual-clock.ts'
import type { Flow, Provider, Reply, Server } from './providers.ts'
import { CALM, createRandom, type World } from './worlds.ts'

/** Calls of a client that are under way or wait at once. */
const WORKERS = 600
/** What an answer that is no success lets a worker wait, or a client that only fails would call without end. */
const FAILED_MS = 1_000
/** One way to the server. */
const TRIP_MS = 20

export interface Figures {
  /** Share of the calls that the server would have admitted. */
  readonly done: number
  /** Share of calls that arrived at the server and were refused. */
  readonly refused: number
  /** Calls that ended in a refusal or an error for the caller. */
  readonly failed: number
  /** The longest time for which calls waited while the server would have admitted one, and none was made. */
  readonly needlessMs: number
}

/** What a client needs for a run. */
export interface Site {
  readonly provider: Provider
  readonly clock: VirtualClock
  readonly fetch: typeof fetch
  readonly random: () => number
  /** The process has ended: whatever its client would still do does not happen. */
  readonly isDead: () => boolean
}

/** Makes a client for one process. */
export type CreateClient = (site: Site) => (url: string) => Promise<Response>

export async function runLoad(
  provider: Provider,
  createClient: CreateClient,
  world: World = CALM,
  seed = 1,
  clock = new VirtualClock(),
): Promise<Figures> {
  const startMs = clock.now()
  const random = createRandom(seed)
  const server = provider.create(startMs)
  const flows = server.flows.map((flow) => new FlowRecord(flow, startMs))
  let count = 0
  let isOver = false

  const travel = async (input: string | URL | Request, site: { readonly isDead: boolean }) => {
    if (site.isDead) return new Promise<Response>(() => {})
    const record = flows.find(({ flow }) => flow.url === String(input)) as FlowRecord
    record.start(clock.now())
    await clock.sleep(TRIP_MS + random() * world.jitterMs)
    const workMs = Math.max(0, world.answerMs - 2 * TRIP_MS) * (0.8 + 0.4 * random())
    const isAdmitted = record.arrive(clock.now(), workMs)
    // An admitted call is told what was left when it was counted, and a refused one when its refusal is written.
    const headers = isAdmitted ? server.report?.(record.flow, clock.now()) : {}
    const body = isAdmitted ? server.body?.(record.flow, clock.now()) : undefined
    for (const each of flows) each.update(clock.now())
    if (provider.hungEvery && ++count % provider.hungEvery === 0) await new Promise(() => {})
    await clock.sleep(isAdmitted ? workMs : world.refusalMs)
    const reply = isAdmitted ? { status: 200, headers: {}, body } : record.refuse(server, clock.now(), world)
    const date = new Date(clock.now() - world.dateAgeMs).toUTCString()
    await clock.sleep(TRIP_MS + random() * world.jitterMs)
    // The call waits again, unless the client gives it up.
    if (!isAdmitted && !site.isDead) record.waiting++
    return new Response(reply.body ?? null, {
      status: reply.status,
      headers: { ...headers, ...reply.headers, date },
    })
  }

  const work = async (call: (url: string) => Promise<Response>, record: FlowRecord, site: { isDead: boolean }) => {
    while (!isOver && !site.isDead) {
      record.waiting++
      const isRefusal = await call(record.flow.url).then(
        async (response) => response.status !== 200 || (await response.text()).includes('THROTTLED'),
        () => true,
      )
      if (!isRefusal || site.isDead) continue
      record.waiting--
      if (!isOver) record.failed++
      await clock.sleep(FAILED_MS)
    }
  }
  const { processes = world.processes } = provider
  const startProcesses = () => {
    const site = { isDead: false }
    for (const record of flows) record.restart(clock.now())
    for (let index = 0; index < processes; index++) {
      const fetch = ((input: string) => travel(input, site)) as typeof globalThis.fetch
      const call = createClient({
        provider: { ...provider, processes },
        clock,
        fetch,
        random,
        isDead: () => site.isDead,
      })
      for (let worker = 0; worker < WORKERS / processes; worker++) {
        void work(call, flows[worker % flows.length] as FlowRecord, site)
      }
    }
    return () => {
      site.isDead = true
    }
  }
  for (const flow of server.flows) {
    useBefore(flow, provider, world, startMs)
    if (world.otherShare > 0) void useToo(flow, world, clock, random, () => isOver, flows)
  }
  const { restartShare = 1 } = world
  const stop = startProcesses()
  await clock.advance(provider.horizonMs * restartShare)
  if (restartShare < 1) {
    stop()
    startProcesses()
    await clock.advance(provider.horizonMs * (1 - restartShare))
  }
  isOver = true
  const endMs = clock.now()
  const sum = (read: (record: FlowRecord) => number) => flows.reduce((total, record) => total + read(record), 0)
  return {
    done: Math.min(1, ...flows.map((record, index) => record.done / countPossible(provider, world, index, startMs))),
    refused:
      sum(({ refused }) => refused) /
      Math.max(
        1,
        sum(({ admitted, refused }) => admitted + refused),
      ),
    failed: sum(({ failed }) => failed),
    needlessMs: Math.max(...flows.map((record) => record.findNeedlessMs(endMs))),
  }
}

/** What became of the calls of one kind. */
class FlowRecord {
  readonly flow: Flow
  waiting = 0
  admitted = 0
  refused = 0
  failed = 0
  /** Calls that another user of the key has made. */
  ofOthers = 0
  #startedMs: number
  /** Since then, the server would admit a call. */
  #freeMs: number
  /** Until then, the server has asked for silence. */
  #silentUntilMs = 0
  #needlessMs = 0

  constructor(flow: Flow, startMs: number) {
    this.flow = flow
    this.#startedMs = startMs
    this.#freeMs = startMs
  }

  get done(): number {
    return this.admitted + this.ofOthers
  }

  /** The processes that waited are gone; new ones know nothing of what the server has asked of them. */
  restart(nowMs: number): void {
    this.#needlessMs = this.findNeedlessMs(nowMs)
    this.#startedMs = nowMs
    this.#freeMs = findFreeMs(this.flow, nowMs)
    this.waiting = 0
  }

  start(nowMs: number): void {
    this.#needlessMs = this.findNeedlessMs(nowMs)
    this.#startedMs = nowMs
    this.waiting--
  }

  /** The longest needless wait so far. Calls that are being repeated are counted as waiting too little, not too much. */
  findNeedlessMs(nowMs: number): number {
    if (this.waiting <= 0) return this.#needlessMs
    return Math.max(this.#needlessMs, nowMs - Math.max(this.#startedMs, this.#freeMs, this.#silentUntilMs))
  }

  /** @returns false if the server refuses the call */
  arrive(nowMs: number, workMs: number): boolean {
    const { limits, cost = 1 } = this.flow
    const isAdmitted = findFreeMs(this.flow, nowMs) <= nowMs
    if (isAdmitted) for (const limit of limits) limit.take(nowMs, cost, nowMs + workMs)
    if (isAdmitted) this.admitted++
    else this.refused++
    return isAdmitted
  }

  /** Writes a refusal, whose times are from now on. */
  refuse(server: Server, nowMs: number, { refusalStatus }: World): Reply {
    const freeMs = findFreeMs(this.flow, nowMs)
    const reply = server.refuse(this.flow, nowMs, Math.max(0, freeMs - nowMs))
    const seconds = reply.headers['retry-after']
    this.#silentUntilMs = Math.max(this.#silentUntilMs, nowMs + Number(seconds ?? 0) * 1_000)
    return {
      ...reply,
      status: seconds === undefined ? reply.status : (refusalStatus ?? reply.status),
      headers: { ...server.report?.(this.flow, nowMs), ...reply.headers },
    }
  }

  update(nowMs: number): void {
    this.#freeMs = findFreeMs(this.flow, nowMs)
  }
}

function findFreeMs({ limits, cost = 1 }: Flow, nowMs: number): number {
  return Math.max(...limits.map((limit) => limit.findFreeMs(nowMs, cost)))
}

/** Uses up a share of the longest limit that ends within the run, evenly over what has passed of its window. */
function useBefore(flow: Flow, { horizonMs }: Provider, { usedShare, passedShare }: World, startMs: number): void {
  const { limits, cost = 1 } = flow
  const within = limits.filter(({ windowMs }) => windowMs <= horizonMs)
  const longest = within.reduce((a, b) => (b.windowMs > a.windowMs ? b : a), limits[0] as (typeof limits)[number])
  const calls = Math.floor((usedShare * longest.limit) / cost)
  const passedMs = passedShare * longest.windowMs
  for (let call = 0; call < calls; call++) {
    const nowMs = startMs - passedMs * (1 - call / calls)
    if (findFreeMs(flow, nowMs) > nowMs) continue
    for (const limit of limits) limit.take(nowMs, cost, nowMs)
  }
}

/** Another user of the key makes calls at random, and gives up those that are refused. */
async function useToo(
  flow: Flow,
  { otherShare, answerMs }: World,
  clock: VirtualClock,
  random: () => number,
  isOver: () => boolean,
  records: readonly FlowRecord[],
): Promise<void> {
  const { limits, cost = 1 } = flow
  const ratesPerMs = limits.flatMap(({ limit, windowMs }) => (windowMs > 0 ? limit / windowMs / cost : []))
  const perMs = Math.min(...ratesPerMs) * otherShare
  const record = records.find((each) => each.flow === flow)
  while (!isOver()) {
    await clock.sleep(-Math.log(1 - random()) / perMs)
    const nowMs = clock.now()
    if (isOver() || findFreeMs(flow, nowMs) > nowMs) continue
    for (const limit of limits) limit.take(nowMs, cost, nowMs + answerMs)
    if (record) record.ofOthers++
    for (const each of records) each.update(nowMs)
  }
}

/** What a window admits that opens in the last moments is not asked for. */
const COUNTED_SHARE = 0.99

/** The calls that all would make together who always call at the first moment possible. */
function countPossible(provider: Provider, world: World, index: number, startMs: number): number {
  const flow = provider.create(startMs).flows[index] as Flow
  const { limits, cost = 1 } = flow
  useBefore(flow, provider, world, startMs)
  let count = 0
  for (let nowMs = startMs + TRIP_MS; ; count++) {
    for (let freeMs = findFreeMs(flow, nowMs); freeMs > nowMs; freeMs = findFreeMs(flow, nowMs)) nowMs = freeMs
    if (nowMs > startMs + COUNTED_SHARE * provider.horizonMs) return count
    for (const limit of limits) limit.take(nowMs, cost, nowMs + Math.max(0, world.answerMs - 2 * TRIP_MS))
  }
}
