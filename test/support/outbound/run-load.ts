/** Calls a model of a server without pause, in virtual time, and measures what a client makes of its limits. */
import { VirtualClock } from '../virtual-clock.ts'
import type { Flow, Provider, Reply, Server } from './providers.ts'

/** Calls of a client that are under way or wait at once. */
const WORKERS = 600
/** What an answer that is no success lets a worker wait, or a client that only fails would call without end. */
const FAILED_MS = 1_000
/** One way to the server. */
const TRIP_MS = 20
const MAX_JITTER_MS = 10

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
}

/** Makes a client for one process. */
export type CreateClient = (site: Site) => (url: string) => Promise<Response>

/** @param answerMs how long the server works on an admitted call; a refusal is immediate */
export async function runLoad(
  provider: Provider,
  createClient: CreateClient,
  answerMs: number,
  seed = 1,
  clock = new VirtualClock(),
): Promise<Figures> {
  const startMs = clock.now()
  const random = createRandom(seed)
  const server = provider.create(startMs)
  const flows = server.flows.map((flow) => new FlowRecord(flow, startMs))
  let count = 0

  const travel = async (input: string | URL | Request) => {
    const record = flows.find(({ flow }) => flow.url === String(input)) as FlowRecord
    record.start(clock.now())
    await clock.sleep(TRIP_MS + random() * MAX_JITTER_MS)
    const workMs = Math.max(0, answerMs - 2 * TRIP_MS) * (0.8 + 0.4 * random())
    const reply = record.arrive(server, clock.now(), workMs)
    for (const each of flows) each.update(clock.now())
    if (provider.hungEvery && ++count % provider.hungEvery === 0) await new Promise(() => {})
    const dateMs = clock.now() + (reply.isAdmitted ? workMs : 0)
    await clock.sleep((reply.isAdmitted ? workMs : 0) + TRIP_MS + random() * MAX_JITTER_MS)
    const date = new Date(dateMs).toUTCString()
    return new Response(reply.body ?? null, { status: reply.status, headers: { ...reply.headers, date } })
  }

  let isOver = false
  const work = async (call: (url: string) => Promise<Response>, record: FlowRecord) => {
    while (!isOver) {
      record.waiting++
      const isRefusal = await call(record.flow.url).then(
        async (response) => response.status !== 200 || (await response.text()).includes('THROTTLED'),
        () => true,
      )
      if (!isRefusal) continue
      record.waiting--
      if (!isOver) record.failed++
      await clock.sleep(FAILED_MS)
    }
  }
  const { processes = 1 } = provider
  for (let index = 0; index < processes; index++) {
    const call = createClient({ provider, clock, fetch: travel as typeof fetch, random })
    for (let worker = 0; worker < WORKERS / processes; worker++) {
      void work(call, flows[worker % flows.length] as FlowRecord)
    }
  }
  await clock.advance(provider.horizonMs)
  isOver = true
  const endMs = clock.now()
  const sum = (read: (record: FlowRecord) => number) => flows.reduce((total, record) => total + read(record), 0)
  return {
    done: Math.min(
      ...flows.map((record, index) => record.admitted / countPossible(provider, answerMs, index, startMs)),
    ),
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

  arrive(server: Server, nowMs: number, workMs: number): Reply & { readonly isAdmitted: boolean } {
    const { flow } = this
    const { limits, cost = 1 } = flow
    const freeMs = findFreeMs(flow, nowMs)
    const isAdmitted = freeMs <= nowMs
    if (isAdmitted) for (const limit of limits) limit.take(nowMs, cost, nowMs + workMs)
    const headers = server.report?.(flow, nowMs)
    if (isAdmitted) {
      this.admitted++
      const body = server.body?.(flow, nowMs)
      return { isAdmitted, status: 200, headers: { ...headers }, ...(body !== undefined && { body }) }
    }
    this.refused++
    // The call waits again, unless the client gives it up.
    this.waiting++
    const reply = server.refuse(flow, nowMs, freeMs - nowMs)
    this.#silentUntilMs = nowMs + Number(reply.headers['retry-after'] ?? 0) * 1_000
    return { isAdmitted, ...reply, headers: { ...headers, ...reply.headers } }
  }

  update(nowMs: number): void {
    this.#freeMs = findFreeMs(this.flow, nowMs)
  }
}

function findFreeMs({ limits, cost = 1 }: Flow, nowMs: number): number {
  return Math.max(...limits.map((limit) => limit.findFreeMs(nowMs, cost)))
}

/** The calls that one would admit who always calls at the first moment possible. */
function countPossible(provider: Provider, answerMs: number, index: number, startMs: number): number {
  const flow = provider.create(startMs).flows[index] as Flow
  const { limits, cost = 1 } = flow
  let count = 0
  for (let nowMs = startMs + TRIP_MS; ; count++) {
    for (let freeMs = findFreeMs(flow, nowMs); freeMs > nowMs; freeMs = findFreeMs(flow, nowMs)) nowMs = freeMs
    if (nowMs > startMs + provider.horizonMs) return count
    for (const limit of limits) limit.take(nowMs, cost, nowMs + Math.max(0, answerMs - 2 * TRIP_MS))
  }
}

/** Mulberry32. */
function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
