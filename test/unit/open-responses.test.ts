/** Databases that move while a WebSocket and a stream are open that began before. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { joinBackends } from '../../src/core/engine/join-backends.ts'
import type { Shard } from '../../src/core/model/store.ts'
import { openMemoryBackend } from '../../src/core/store/memory/memory-store.ts'
import { createGateway } from '../../src/gateway/create-gateway.ts'

const MINUTE_MS = 60_000
const BEFORE: readonly Shard[] = [{ name: 'a' }]
const DURING: readonly Shard[] = [{ name: 'a' }, { name: 'b', state: 'joining' }]
const AFTER: readonly Shard[] = [{ name: 'a' }, { name: 'b' }]

beforeEach(() => void vi.useFakeTimers({ now: 1_700_000_000_000 }))
afterEach(() => void vi.useRealTimers())

/** Databases in memory, which isolates of any layout share. */
function createSite(policies: readonly object[], answer: (request: Request) => Response) {
  const databases = new Map<string, ReturnType<typeof openMemoryBackend>>()
  const open = (layout: readonly Shard[]) => {
    const shards = layout.map((shard) => {
      const backend = databases.get(shard.name) ?? openMemoryBackend(Date.now)
      databases.set(shard.name, backend)
      return { ...shard, backend }
    })
    // As with UPSTASH_REDIS_REST_URL.
    return shards.length === 1
      ? (shards[0]?.backend as never)
      : joinBackends(shards, { timeoutMs: 1_000, now: Date.now })
  }
  return async function startIsolate(layout: readonly Shard[]) {
    const { app } = await createGateway(
      {
        POLICIES: policies,
        UPSTREAM: { fetch: async (request: Request) => answer(request) },
        REDIS_SHARDS: JSON.stringify(
          layout.map((shard) => ({ ...shard, url: `https://${shard.name}.test`, token: 'token' })),
        ),
      },
      { open: () => open(layout), log() {} },
    )
    const context = { waitUntil: (work: Promise<unknown>) => void work.catch(() => {}), passThroughOnException() {} }
    const ask = async (caller: number, headers = {}, path = '/') =>
      app.fetch(
        new Request(`https://gateway.test${path}`, {
          headers: { Authorization: `Bearer caller-${caller}`, ...headers },
        }),
        {},
        context as never,
      )
    return {
      ask,
      openSocket: (caller: number) => ask(caller, { Upgrade: 'websocket' }),
      async readLayout() {
        const response = await ask(0, {}, '/_sluice/health')
        type Read = {
          readonly store: { readonly layout: { readonly completeAtMs: number; readonly warning: string | null } }
        }
        return ((await response.json()) as Read).store.layout
      },
    }
  }
}

type Isolate = Awaited<ReturnType<ReturnType<typeof createSite>>>

/** Waits as docs/growing.md says, for so long at most. @returns whether it is over */
async function waitForMove(during: Isolate, maxMs: number): Promise<boolean> {
  for (let waitedMs = 0; waitedMs <= maxMs; waitedMs += 5_000) {
    if (Date.now() >= (await during.readLayout()).completeAtMs) return true
    await vi.advanceTimersByTimeAsync(5_000)
  }
  return false
}

/** Some callers move from one database to the other, and others stay. */
const CALLERS = [1, 2, 3, 4, 5, 6]

test('a change waits for WebSockets that began before it, so that no caller ever has more than its slots', async () => {
  const sockets: WebSocket[] = []
  const startIsolate = createSite(
    [{ name: 'sockets', by: 'token', algorithm: 'concurrency', limits: '2', slot_ttl: '1m' }],
    () => {
      const { 0: client, 1: server } = new WebSocketPair()
      server.accept()
      return new Response(null, { status: 101, webSocket: client })
    },
  )
  const openAll = async (isolate: Isolate) => {
    const statuses: number[] = []
    for (const caller of [...CALLERS, ...CALLERS]) {
      const { status, webSocket } = await isolate.openSocket(caller)
      statuses.push(status)
      webSocket?.accept()
      if (webSocket) sockets.push(webSocket)
    }
    return statuses
  }
  const before = await startIsolate(BEFORE)
  expect(await openAll(before)).toEqual(Array(12).fill(101))
  const during = await startIsolate(DURING)
  expect((await during.readLayout()).warning).toBeNull()
  // Not for hours, in which they are renewed.
  expect(await waitForMove(during, 180 * MINUTE_MS)).toBe(false)
  expect((await during.readLayout()).warning).toBe(
    'responses that began before this change are open, and counted in their old place alone, by sockets',
  )
  expect(await openAll(during)).toEqual(Array(12).fill(429))
  for (const socket of sockets.splice(0)) socket.close()
  await vi.advanceTimersByTimeAsync(1_000)
  // Those that begin now are counted in both, and do not hold it up.
  expect(await openAll(during)).toEqual(Array(12).fill(101))
  expect(await waitForMove(during, 5 * MINUTE_MS)).toBe(true)
  expect((await during.readLayout()).warning).toBeNull()
  const after = await startIsolate(AFTER)
  expect((await after.readLayout()).warning).toBeNull()
  expect(await openAll(after)).toEqual(Array(12).fill(429))
})

test('a change waits for streams that began before it, so that what they cost counts for a whole window', async () => {
  const streams: ReadableStreamDefaultController<Uint8Array>[] = []
  const startIsolate = createSite(
    [{ name: 'tokens', by: 'token', limits: '1000/1m', actual_cost: 'json:/usage/total_tokens', untold: 1 }],
    () => {
      const body = new ReadableStream<Uint8Array>({ start: (controller) => void streams.push(controller) })
      return new Response(body, { headers: { 'Content-Type': 'text/event-stream' } })
    },
  )
  const begin = async (isolate: Isolate) => {
    for (const caller of CALLERS) {
      const response = await isolate.ask(caller)
      expect(response.status).toBe(200)
      void response.text()
    }
  }
  const end = async () => {
    for (const controller of streams.splice(0)) {
      controller.enqueue(new TextEncoder().encode('data: {"usage":{"total_tokens":1000}}\n\n'))
      controller.close()
    }
    await vi.advanceTimersByTimeAsync(1_000)
  }
  const askAll = async (isolate: Isolate) => {
    const statuses: number[] = []
    for (const caller of CALLERS) statuses.push((await isolate.ask(caller)).status)
    return statuses
  }
  const before = await startIsolate(BEFORE)
  await begin(before)
  const during = await startIsolate(DURING)
  // They end shortly before the change would be complete without them.
  expect(await waitForMove(during, 130_000)).toBe(false)
  await end()
  const endedAtMs = Date.now()
  // The unit that each was charged when it began counts no more.
  await askAll(during)
  expect(await askAll(during)).toEqual(CALLERS.map(() => 429))
  streams.splice(0)
  expect(await waitForMove(during, 5 * MINUTE_MS)).toBe(true)
  expect(Date.now() - endedAtMs).toBeGreaterThanOrEqual(MINUTE_MS)
  // What began during the change is charged in both places, and counts after it.
  await begin(during)
  const after = await startIsolate(AFTER)
  await end()
  expect(await askAll(after)).toEqual(CALLERS.map(() => 429))
})
