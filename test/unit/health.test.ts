import { expect, test } from 'vitest'
import { version } from '../../package.json'
import { type Circuit, type Store, StoreError } from '../../src/core/model/store.ts'
import { createHealthReader, createHealthResponse } from '../../src/gateway/app/health.ts'

const START_MS = 1_700_000_000_000
const TIMEOUT_MS = 500

/** A store whose pings are answered when the test says so, and a clock that the test sets. */
function subject(kind: Store['kind'] = 'redis') {
  const pings: PromiseWithResolvers<void>[] = []
  const guard: { circuit: Circuit; mayCall: boolean } = { circuit: 'closed', mayCall: true }
  const engine = {
    get circuit() {
      return guard.circuit
    },
    get mayCall() {
      return guard.mayCall
    },
    ping() {
      const ping = Promise.withResolvers<void>()
      pings.push(ping)
      return ping.promise
    },
  }
  const clock = { now: START_MS }
  const readHealth = createHealthReader({ kind }, engine, TIMEOUT_MS, () => clock.now)
  const health = async () => createHealthResponse(await readHealth())
  return {
    pings,
    clock,
    guard,
    async ask(answer?: (ping: PromiseWithResolvers<void>) => void) {
      const response = health()
      const ping = pings.at(-1)
      if (answer && ping) answer(ping)
      return (await response).json()
    },
    health,
  }
}

const KNOWN = { kind: 'redis', timeoutMs: TIMEOUT_MS, circuit: 'closed' }

type Ping = PromiseWithResolvers<void>
const resolve = (ping: Ping) => ping.resolve()
const reject = (ping: Ping) => ping.reject(new StoreError('Redis could not be reached'))

test('createHealthResponse() answers 200 and JSON that no cache may keep', async () => {
  const { health, pings, clock } = subject()
  const answer = health()
  clock.now += 12
  pings[0]?.resolve()
  const response = await answer
  expect(response.status).toBe(200)
  expect(response.headers.get('Content-Type')).toBe('application/json')
  expect(response.headers.get('Cache-Control')).toBe('no-store')
  expect(await response.json()).toEqual({
    status: 'ok',
    release: version,
    store: { ...KNOWN, state: 'answers', reachable: true, rttMs: 12 },
  })
})

test('createHealthResponse() answers 200 and says so if the store is out of reach', async () => {
  const { health, pings } = subject()
  const answer = health()
  pings.forEach(reject)
  const response = await answer
  expect(response.status).toBe(200)
  expect(await response.json()).toEqual({
    status: 'degraded',
    release: version,
    store: { ...KNOWN, state: 'unavailable', reachable: false, rttMs: null },
  })
})

test('createHealthReader() names the in-memory store', async () => {
  const { ask } = subject('memory')
  expect(await ask(resolve)).toMatchObject({ status: 'ok', store: { kind: 'memory', reachable: true } })
})

test('createHealthReader() pings at most once a second, and answers in between what it knows', async () => {
  const { ask, pings, clock } = subject()
  await ask(reject)
  clock.now += 999
  expect(await ask()).toMatchObject({ store: { reachable: false } })
  expect(pings).toHaveLength(1)
  clock.now += 1
  expect(await ask(resolve)).toMatchObject({ store: { reachable: true } })
  expect(pings).toHaveLength(2)
  clock.now += 1_000
  expect(await ask(reject)).toMatchObject({ status: 'degraded', store: { reachable: false } })
  expect(pings).toHaveLength(3)
})

test('createHealthReader() lets concurrent calls neither ping again nor wait for a ping that is not theirs', async () => {
  const { ask, health, pings, clock } = subject()
  const first = health()
  clock.now += 5
  // Answered while the first ping is still under way: nothing is known yet.
  const others = await Promise.all([ask(), ask(), ask()])
  expect(others).toEqual(
    others.map(() => ({
      status: 'unknown',
      release: version,
      store: { ...KNOWN, state: 'unknown', reachable: null, rttMs: null },
    })),
  )
  expect(pings).toHaveLength(1)
  pings.forEach(resolve)
  expect(await (await first).json()).toMatchObject({ store: { reachable: true, rttMs: 5 } })
  expect(await ask()).toMatchObject({ store: { reachable: true, rttMs: 5 } })
  expect(pings).toHaveLength(1)
})

test('createHealthReader() remembers the latest ping, even if an earlier one ends after it', async () => {
  const { ask, health, pings, clock } = subject()
  const slow = health()
  clock.now += 1_000
  expect(await ask(resolve)).toMatchObject({ store: { reachable: true } })
  pings.slice(0, 1).forEach(reject)
  await slow
  expect(await ask()).toMatchObject({ status: 'ok', store: { reachable: true } })
  expect(pings).toHaveLength(2)
})

test.each([
  ['open', false, 'degraded', 'failing'],
  ['half-open', false, 'degraded', 'failing'],
  ['half-open', true, 'ok', 'answers'],
] as const)(
  'createHealthReader() says of a circuit that is %s (may call: %s) %s',
  async (circuit, mayCall, ...said) => {
    const { ask, guard } = subject()
    Object.assign(guard, { circuit, mayCall })
    const [status, state] = said
    expect(await ask(resolve)).toMatchObject({ status, store: { state, reachable: true, circuit } })
  },
)

test('createHealthReader() says that a store is slow whose answers come after the deadline of decisions', async () => {
  const { clock, health, pings } = subject()
  const answer = health()
  clock.now += TIMEOUT_MS
  pings[0]?.resolve()
  expect(await (await answer).json()).toMatchObject({ status: 'ok', store: { state: 'answers', rttMs: TIMEOUT_MS } })
  clock.now += 1_000
  const late = health()
  clock.now += TIMEOUT_MS + 1
  pings[1]?.resolve()
  expect(await (await late).json()).toMatchObject({ status: 'degraded', store: { state: 'slow', reachable: true } })
})

test('a clock that is set back does not keep the store from being pinged', async () => {
  const { ask, clock, pings } = subject()
  await ask(resolve)
  clock.now -= 3_600_000
  expect(await ask(reject)).toMatchObject({ store: { reachable: false } })
  expect(pings).toHaveLength(2)
})
