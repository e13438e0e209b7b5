/** Several databases, each a real Redis behind a REST front, while some join, leave and die under load. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, inject, onTestFinished, test } from 'vitest'
import type { Shard } from '../../../src/core/model/store.ts'
import { startRedisServer } from '../../../tools/redis-server.ts'
import { startRestFront } from '../../../tools/rest-front.ts'
import { PLANTED } from '../../setup/secret-watch.ts'
import { type DirectGateway, startDirectGateway } from '../../support/direct-gateway.ts'
import { send } from '../../support/http-client.ts'
import { type Adding, startParts } from '../../support/parts.ts'
import { connectRedis } from '../../support/redis-client.ts'
import { PATIENT } from '../../support/site.ts'
import { startUpstream } from '../../support/upstream.ts'
import { type Admission, checkWindows } from '../../support/windows.ts'
import { sendInLanes, sendSteadily } from '../kit/traffic.ts'

const TOKEN = `${PLANTED}-rest-token`
const CALLERS = 24

/** A database of its own, with the keys that it holds. */
async function startPlace(add: Adding, name: string) {
  const redis = await add(startRedisServer())
  const front = await add(startRestFront({ redisPort: redis.port, token: TOKEN }))
  return {
    name,
    redis,
    front,
    async listKeys(): Promise<string[]> {
      const client = await connectRedis(redis.port)
      const keys = (await client.sendCommand(['KEYS', '*'])) as string[]
      client.destroy()
      return keys
    },
  }
}

type Place = Awaited<ReturnType<typeof startPlace>>
type Layout = readonly (readonly [Place, Shard['state']?])[]

async function startSite(names: readonly string[]) {
  const site = await startParts(async (add) => {
    const upstream = await add(startUpstream((_request, response) => void response.end('hello')))
    const places: Place[] = []
    for (const name of names) places.push(await startPlace(add, name))
    /** Starts points of presence with these settings. */
    const startPoints = (layout: Layout, variables: object, points = 2) =>
      Promise.all(
        Array.from({ length: points }, () => {
          const shards = layout.map(([{ name, front }, state]) => ({ name, url: front.url, token: TOKEN, state }))
          const bindings = {
            ...PATIENT,
            ...variables,
            UPSTREAM_URL: upstream.url,
            REDIS_SHARDS: JSON.stringify(shards),
          }
          return add(startDirectGateway({ bundle: inject('bundle'), bindings }))
        }),
      )
    return { places, startPoints }
  })
  onTestFinished(async () => void (await site.stop()))
  return site
}

function ask({ url }: DirectGateway, caller: number, agent: Parameters<Parameters<typeof sendInLanes>[1]>[1]) {
  return send(url, { agent, headers: { Authorization: `Bearer caller-${caller}` } })
}

test('every caller gets exactly its limit over two databases, and each is counted in one of them', async () => {
  const { places, startPoints } = await startSite(['a', 'b'])
  const points = await startPoints(
    places.map((place) => [place]),
    { RATE_LIMITS: '5/1h', STATISTICS: 'on' },
  )
  const seen = await sendInLanes({ requests: 20 * CALLERS, lanes: 8 }, async (index, agent) => {
    const caller = index % CALLERS
    const { status } = await ask(points[index % points.length] as DirectGateway, caller, agent)
    return { caller, status }
  })
  const admitted = Map.groupBy(seen, ({ caller, status }) => `${caller} ${status}`)
  for (let caller = 0; caller < CALLERS; caller++) {
    expect([admitted.get(`${caller} 200`)?.length, admitted.get(`${caller} 429`)?.length]).toEqual([5, 15])
  }
  const held = await Promise.all(places.map((place) => place.listKeys()))
  const counts = held.map((keys) => keys.filter((key) => key.startsWith('sluice:default:')).length)
  expect(counts.reduce((sum, count) => sum + count)).toBe(CALLERS)
  expect(Math.min(...counts)).toBeGreaterThan(0)
})

const WINDOW_MS = 3_000
const PER_CALLER = { limit: 6, windowMs: WINDOW_MS }
const FOR_ALL = { limit: 60, windowMs: WINDOW_MS }
const MOVING = {
  RATE_LIMITS: `${PER_CALLER.limit}/3s`,
  POLICIES: [{ name: 'all', by: 'global', limits: `${FOR_ALL.limit}/3s` }],
}

test('no window is over its limit while a third database joins, and another one leaves, under load', async () => {
  const { places, startPoints } = await startSite(['a', 'b', 'c'])
  const [a, b, c] = places as [Place, Place, Place]
  const layouts: readonly Layout[] = [
    [[a], [b]],
    [[a], [b], [c, 'joining']],
    [[a], [b], [c]],
    [[a], [b, 'leaving'], [c]],
    [[a], [c]],
  ]
  let points = await startPoints(layouts[0] as Layout, MOVING)
  let live: readonly DirectGateway[] = points
  let phase = 0
  const traffic = sendSteadily({ ratePerS: 150, maxInFlight: 48 }, async (index, agent) => {
    const [caller, at, sentMs] = [index % 12, phase, performance.now()]
    const { status } = await ask(live[index % live.length] as DirectGateway, caller, agent)
    return { caller, at, status, sentMs, doneMs: performance.now() }
  })
  for (const layout of layouts.slice(1)) {
    await sleep(WINDOW_MS)
    const before = points
    points = await startPoints(layout, MOVING)
    // A deploy reaches some before others.
    live = [...before, ...points]
    await sleep(1_000)
    live = points
    phase++
    await traffic.drain()
    for (const point of before) await point.stop()
    // Both have counted for a longest window before the next change.
    await sleep(WINDOW_MS)
  }
  const seen = await traffic.stop()
  expect(seen.filter(({ status }) => status !== 200 && status !== 429)).toEqual([])
  const admitted = seen.filter(({ status }) => status === 200)
  const toAdmission = ({ sentMs, doneMs }: (typeof seen)[number]): Admission => ({
    ms: sentMs,
    latestMs: doneMs,
    cost: 1,
  })
  for (const own of Map.groupBy(admitted, ({ caller }) => caller).values()) {
    expect(checkWindows(PER_CALLER, own.map(toAdmission)).over).toBe(0)
  }
  expect(checkWindows(FOR_ALL, admitted.map(toAdmission)).over).toBe(0)
  for (let at = 0; at < layouts.length; at++) {
    const statuses = new Set(seen.filter((one) => one.at === at).map(({ status }) => status))
    expect([at, [...statuses].toSorted()]).toEqual([at, [200, 429]])
  }
})

test('a database that dies takes its callers with it, is hardly called, and comes back', async () => {
  const { places, startPoints } = await startSite(['a', 'b', 'c'])
  const [point] = (await startPoints(
    places.map((place) => [place]),
    { RATE_LIMITS: '1000/1h', STORE_TIMEOUT_MS: '2000' },
    1,
  )) as [DirectGateway]
  const askEach = (times: number) =>
    sendInLanes({ requests: times * CALLERS, lanes: 4 }, async (index, agent) => {
      const caller = index % CALLERS
      return { caller, status: (await ask(point, caller, agent)).status }
    })
  expect((await askEach(1)).every(({ status }) => status === 200)).toBe(true)
  const [, , dead] = places as [Place, Place, Place]
  const lost = (await dead.listKeys()).length
  expect(lost).toBeGreaterThan(0)
  await dead.redis.stop()
  const [calledBefore, beganMs] = [dead.front.requests, performance.now()]
  const seen = await askEach(20)
  const tookMs = performance.now() - beganMs
  const refused = new Set(seen.filter(({ status }) => status === 503).map(({ caller }) => caller))
  expect(refused.size).toBe(lost)
  // No answer of the others was lost.
  expect(seen.filter(({ caller, status }) => !refused.has(caller) && status !== 200)).toEqual([])
  // Five failures open the circuit, as many as there are lanes may be on their way, and then one call a pause asks.
  const mostCalls = 5 + 4 + Math.ceil(tookMs / 180)
  expect(dead.front.requests - calledBefore).toBeLessThanOrEqual(mostCalls)
  expect(point.log.filter((line) => line.includes('store_error')).length).toBeGreaterThan(0)
  const health = await (await fetch(new URL('/_sluice/health', point.url))).json()
  expect(health).toMatchObject({
    status: 'degraded',
    store: { reachable: false, shards: { a: { reachable: true, circuit: 'closed' }, c: { reachable: false } } },
  })
  const again = await startRedisServer({ port: dead.redis.port })
  onTestFinished(() => again.stop())
  await expect
    .poll(async () => (await askEach(1)).filter(({ status }) => status !== 200).length, { timeout: 60_000 })
    .toBe(0)
})
