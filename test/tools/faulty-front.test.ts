import { createHash } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { FAULTS, type FaultName } from '../../tools/faults.ts'
import { type FaultyFront, startFaultyFront } from '../../tools/faulty-front.ts'
import { startRestFront } from '../../tools/rest-front.ts'
import { share } from '../support/share.ts'

const SCRIPT = "redis.call('INCR', KEYS[1]) return {1, 1700000000000, 9, 60000, 0}"
const RESULT = [1, 1_700_000_000_000, 9, 60_000, 0]
const TOKEN = 'secret'

const rest = share(() => startRestFront({ redisPort: inject('redisPort'), token: TOKEN }))
let front: FaultyFront
let key: string

beforeEach(async () => {
  key = crypto.randomUUID()
  front = await startFaultyFront({ target: rest.url })
})
afterEach(() => front.stop())

function post(command: unknown[], init: RequestInit = {}, to = front.url): Promise<Response> {
  const headers = { authorization: `Bearer ${TOKEN}` }
  return fetch(to, { method: 'POST', headers, body: JSON.stringify(command), ...init })
}

const evaluate = (init?: RequestInit) => post(['EVAL', SCRIPT, 1, key], init)

/** How often the script has run; asked past the faults. */
async function runs(): Promise<number> {
  const { result } = (await (await post(['GET', key], {}, rest.url)).json()) as { result: string | null }
  return Number(result)
}

test('startFaultyFront() serves as the front behind it does while no fault is injected', async () => {
  const served = await evaluate()
  expect([served.status, await served.json()]).toEqual([200, { result: RESULT }])
  const failed = await post(['GET'])
  expect([failed.status, await failed.json()]).toEqual([
    400,
    { error: "ERR wrong number of arguments for 'get' command" },
  ])
  const refused = await post(['PING'], { headers: { authorization: 'Bearer wrong' } })
  expect(refused.status).toBe(401)
  expect([front.requests, front.scriptCalls, front.spoiled]).toEqual([3, 1, 0])
})

test('inject() takes effect on the next request, and undefined ends it', async () => {
  front.inject(FAULTS['status 500'])
  expect((await evaluate()).status).toBe(500)
  front.inject(undefined)
  expect((await evaluate()).status).toBe(200)
  expect(await runs()).toBe(1)
})

test('inject() hits the given share of the requests, the same ones for the same seed', async () => {
  const draw = async () => {
    const own = await startFaultyFront({ target: rest.url, seed: 7 })
    own.inject(FAULTS['status 500'], 0.3)
    const statuses: number[] = []
    for (let i = 0; i < 100; i++) statuses.push((await post(['PING'], {}, own.url)).status)
    await own.stop()
    return statuses
  }
  const statuses = await draw()
  const hit = statuses.filter((status) => status === 500).length
  expect(hit).toBeGreaterThan(15)
  expect(hit).toBeLessThan(45)
  expect(await draw()).toEqual(statuses)
})

test('forwardTo() serves from another front', async () => {
  const other = await startRestFront({ redisPort: inject('redisPort'), token: 'other' })
  front.forwardTo(other.url)
  expect((await post(['PING'])).status).toBe(401)
  await other.stop()
})

describe('startFaultyFront() answers without running the command:', () => {
  test.for([400, 401, 429, 500, 503] as const)('status %i, which repeats what was sent', async (status) => {
    front.inject(FAULTS[`status ${status}`])
    const response = await evaluate()
    expect(response.status).toBe(status)
    const { error } = (await response.json()) as { error: string }
    expect(error).toContain(TOKEN)
    expect(error).toContain(key)
    expect([await runs(), front.spoiled]).toEqual([0, 0])
  })

  test.for([
    ['empty body', 200, ''],
    ['HTML body', 200, '<!doctype html>'],
    ['HTML body, status 502', 502, '<!doctype html>'],
    ['no result', 200, '{"result":null}'],
  ] as const)('%s', async ([name, status, start]) => {
    front.inject(FAULTS[name])
    const response = await evaluate()
    const text = await response.text()
    expect([response.status, text.slice(0, start.length || 1)]).toEqual([status, start])
    expect([await runs(), front.spoiled]).toEqual([0, 0])
  })

  test('hang', async () => {
    front.inject(FAULTS['hang, command not run'])
    await expect(evaluate({ signal: AbortSignal.timeout(100) })).rejects.toThrow('timeout')
    expect([await runs(), front.spoiled]).toEqual([0, 0])
  })

  test('NOSCRIPT to EVALSHA, while EVAL runs', async () => {
    const sha = createHash('sha1').update(SCRIPT).digest('hex')
    expect((await evaluate()).status).toBe(200)
    front.inject(FAULTS['NOSCRIPT each time'])
    const response = await post(['EVALSHA', sha, 1, key])
    expect([response.status, await response.json()]).toEqual([
      400,
      { error: 'NOSCRIPT No matching script. Please use EVAL.' },
    ])
    expect((await evaluate()).status).toBe(200)
    front.inject(FAULTS['NOSCRIPT to EVAL too'])
    expect((await evaluate()).status).toBe(400)
    expect([await runs(), front.spoiled]).toEqual([2, 0])
  })
})

describe('startFaultyFront() runs the command, and its caller may not know:', () => {
  test('hang', async () => {
    front.inject(FAULTS['hang, command run'])
    const caller = new AbortController()
    const answered = evaluate({ signal: caller.signal })
    // Not before it has run, however long that takes.
    await expect.poll(runs, { timeout: 30_000 }).toBe(1)
    caller.abort(new Error('given up'))
    await expect(answered).rejects.toThrow('given up')
    expect(front.spoiled).toBe(0)
  })

  test('reset in the middle of the body', async () => {
    front.inject(FAULTS['reset mid-body'])
    const response = await evaluate()
    expect(response.status).toBe(200)
    await expect(response.text()).rejects.toThrow()
    expect([await runs(), front.spoiled]).toEqual([1, 1])
  })

  test('truncated JSON', async () => {
    front.inject(FAULTS['truncated JSON'])
    await expect((await evaluate()).json()).rejects.toThrow(SyntaxError)
    expect([await runs(), front.spoiled]).toEqual([1, 1])
  })

  const [granted, nowMs, ...usage] = RESULT
  test.for<[FaultName, unknown]>([
    ['object in place of an array', { ...RESULT }],
    ['too few integers', RESULT.slice(0, -1)],
    ['too many integers', [...RESULT, 0]],
    ['strings for integers', RESULT.map(String)],
    ['floats for integers', RESULT.map((number) => number + 0.5)],
    ['negative numbers', RESULT.map((number) => -1 - number)],
    ['negative usage', [granted, nowMs, ...usage.map((number) => -1 - number)]],
    ['refusal without a reason', [0, nowMs, 0, 0, 0]],
    ['base64 not asked for', RESULT.map((number) => btoa(`${number}`))],
  ])('%s', async ([name, result]) => {
    front.inject(FAULTS[name])
    expect(await (await evaluate()).json()).toEqual({ result })
    expect([await runs(), front.spoiled]).toEqual([1, 1])
  })
})

test('startFaultyFront() delays by a different time each', async () => {
  front.inject(FAULTS['latency with jitter'])
  const delays: number[] = []
  for (let i = 0; i < 5; i++) {
    const startedAt = performance.now()
    await (await post(['PING'])).text()
    delays.push(performance.now() - startedAt)
  }
  expect(Math.min(...delays)).toBeGreaterThanOrEqual(18)
  expect(new Set(delays.map(Math.round)).size).toBeGreaterThan(1)
})
