/** Measures the cost of a decision by several policies, each with its own identity: over Redis, also by a peer, and over objects. */
import { connect, createServer } from 'node:net'
import { DurableObjectStore } from '../../src/core/store/durable-object/durable-object-store.ts'
import { type ObjectNamespace, openObjects } from '../../src/core/store/durable-object/objects.ts'
import type { RedisClient } from '../../test/support/redis-client.ts'
import { seededRandom } from '../../tools/seeded-random.ts'
import { readCounts, resetCounts } from '../command-counts.ts'
import type { Peers } from '../peers.ts'
import { findMetro } from '../scale/map.ts'
import { ObjectSite } from '../scale/object-site.ts'
import { runInVirtualTime, VirtualTime } from '../scale/virtual-time.ts'
import type { Service } from '../services.ts'
import { createIdentitySubjects, decide, IDENTITY_COUNTS, type IdentitySubject } from './subjects.ts'

/** The cost of a decision. */
export interface IdentityFigures extends IdentityCounts {
  readonly limiter: string
  readonly store: 'Redis' | 'objects'
  readonly identities: number
  /** Whether none of its identities was seen before; else each has 1,000 admissions in its window. */
  readonly isNew: boolean
}

interface IdentityCounts {
  /** Commands that Upstash bills. */
  readonly billed: number
  /** Calls to Redis by REST, or to objects. */
  readonly calls: number
  /** One after the other, before the answer. */
  readonly roundTrips: number
  /** Both ways: to Redis with the fields of HTTP, without TLS; to objects without fields. */
  readonly bytes: number
  /** Rows that objects write. */
  readonly rowsWritten: number
}

export interface IdentityOptions {
  readonly redis: RedisClient
  /** The REST front before Redis. */
  readonly front: Service
  readonly token: string
  /** Connects the peers to a REST front. */
  readonly connectTo: (restUrl: string) => Promise<Peers>
}

const ENTRIES = 1_000
const DECISIONS = 40
/** Objects write their logs in rows of 128 entries, so that this many decisions write the same number each time. */
const OBJECT_DECISIONS = 256
const ROUND_TRIP_MS = 20
/** Two decisions are so far apart that an object knows the end of one before the next. */
const GAP_MS = 1_000

export async function measureIdentities(options: IdentityOptions): Promise<IdentityFigures[]> {
  const figures = await measureOverRedis(options)
  for (const identities of IDENTITY_COUNTS) figures.push(...(await countOverObjects(identities)))
  return figures
}

/** Exact, and the same in each run. */
export async function measureOverRedis(options: IdentityOptions): Promise<IdentityFigures[]> {
  const { redis, front, token, connectTo } = options
  const relay = await startRelay(new URL(front.url))
  const peers = await connectTo(relay.url)
  const counters = { countCalls: () => front.ask<number>('requests'), countBytes: relay.bytes }
  try {
    const figures: IdentityFigures[] = []
    for (const subject of createIdentitySubjects(redis, peers.contenders, { url: relay.url, token })) {
      // The first decision loads scripts.
      await subject.decide('first'.padStart(20, '0'))
      for (const isNew of [true, false]) {
        const counts = await countRow(redis, subject, isNew, counters)
        figures.push({ limiter: subject.name, store: 'Redis', identities: subject.identities, isNew, ...counts })
      }
    }
    return figures
  } finally {
    await peers.close()
    relay.stop()
  }
}

async function countRow(
  redis: RedisClient,
  subject: IdentitySubject,
  isNew: boolean,
  { countCalls, countBytes }: { readonly countCalls: () => Promise<number>; readonly countBytes: () => number },
): Promise<IdentityCounts> {
  await redis.flushAll()
  const callers = Array.from({ length: DECISIONS }, (_, index) => `${isNew ? index : 'hot'}`.padStart(20, '0'))
  const [hot] = callers
  if (!isNew && hot) {
    await subject.fill(hot, ENTRIES)
    // It learns that their logs are long.
    await subject.decide(hot)
  }
  const before = { calls: await countCalls(), bytes: countBytes() }
  await resetCounts(redis)
  for (const caller of callers) await subject.decide(caller)
  const { billed } = await readCounts(redis)
  const calls = ((await countCalls()) - before.calls) / DECISIONS
  const bytes = (countBytes() - before.bytes) / DECISIONS
  return { billed: billed / DECISIONS, calls, roundTrips: calls, bytes, rowsWritten: 0 }
}

/** The production code over simulated objects, in virtual time: exact, and the same in each run. */
export async function countOverObjects(identities: number): Promise<IdentityFigures[]> {
  const time = new VirtualTime()
  const random = seededRandom(1)
  const objects = new ObjectSite({ time, random, countOthers: () => 0, lookMs: 0 })
  const metro = findMetro('London')
  const { namespace, countBytes } = withByteCount(objects.namespaceAt({ ...metro, metro }, ROUND_TRIP_MS))
  const store = new DurableObjectStore({ objects: openObjects(namespace), timeoutMs: 500 })
  const countAll = () => {
    const { requests, rowsWritten } = objects.readBill()
    return { calls: requests, rowsWritten, bytes: countBytes() }
  }

  async function decideAll(callers: readonly string[]): Promise<IdentityCounts> {
    const before = countAll()
    let waitedMs = 0
    for (const caller of callers) {
      const startMs = time.nowMs
      const decided = decide(store, caller, identities).then(() => {
        waitedMs += time.nowMs - startMs
      })
      await time.runUntil(time.nowMs + GAP_MS)
      await decided
    }
    const after = countAll()
    const divide = (name: keyof typeof after) => (after[name] - before[name]) / callers.length
    // What an object itself takes is less than a round trip.
    const roundTrips = Math.floor(waitedMs / callers.length / ROUND_TRIP_MS)
    const [calls, rowsWritten, bytes] = [divide('calls'), divide('rowsWritten'), divide('bytes')]
    return { billed: 0, calls, roundTrips, bytes, rowsWritten }
  }

  return runInVirtualTime(time, random, async () => {
    const of = { limiter: 'Sluice', store: 'objects', identities } as const
    const callers = Array.from({ length: DECISIONS }, (_, index) => `${index}`.padStart(20, '0'))
    const repeatHot = (length: number) => Array<string>(length).fill('hot'.padStart(20, '0'))
    const fresh = await decideAll(callers)
    await decideAll(repeatHot(ENTRIES))
    return [
      { ...of, isNew: true, ...fresh },
      { ...of, isNew: false, ...(await decideAll(repeatHot(OBJECT_DECISIONS))) },
    ]
  })
}

function withByteCount({ idFromName, get }: ObjectNamespace) {
  let bytes = 0
  const namespace: ObjectNamespace = {
    idFromName,
    get: (id) => ({
      async fetch(url, init) {
        bytes += init.body.length
        const answer = await get(id).fetch(url, init)
        bytes += JSON.stringify(await answer.json()).length
        return answer
      },
    }),
  }
  return { namespace, countBytes: () => bytes }
}

/** Passes connections on to a server, and counts their bytes, both ways. */
async function startRelay({ hostname, port }: URL) {
  let bytes = 0
  const server = createServer((client) => {
    const behind = connect(Number(port), hostname)
    for (const [from, to] of [
      [client, behind],
      [behind, client],
    ] as const) {
      from.on('data', (chunk) => {
        bytes += chunk.length
      })
      from.on('error', () => to.destroy())
      from.pipe(to)
    }
  })
  await new Promise<void>((resolve) => server.listen(0, hostname, resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the relay does not listen')
  return { url: `http://${hostname}:${address.port}`, bytes: () => bytes, stop: () => server.close() }
}
