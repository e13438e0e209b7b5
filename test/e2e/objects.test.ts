import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, inject, onTestFinished, test } from 'vitest'
import { PLANTED } from '../setup/secret-watch.ts'
import { startObjectSite } from '../support/object-site.ts'
import { share } from '../support/share.ts'

const METRICS_TOKEN = `${PLANTED}-for-metrics-of-objects`
const ADMIN_TOKEN = `${PLANTED}-for-operators-of-objects`

const site = share(() => {
  const variables = {
    RATE_LIMITS: '5/1h',
    POLICIES: [
      { name: 'team', by: 'header:x-team', limits: '3/1h' },
      { name: 'new-identities', by: 'header:x-house', counts: 'new-identities', limits: '2/1h', match: 'GET /new' },
      {
        name: 'units',
        by: 'token',
        algorithm: 'quota',
        limits: '100/1h',
        cost: 20,
        actual_cost: 'header:x-units',
        untold: 1,
        match: '/units',
      },
      { name: 'slots', by: 'token', algorithm: 'concurrency', limits: '1', match: '/slots' },
    ],
    RULES: 'on',
    RULES_REFRESH_MS: 100,
    ADMIN_TOKEN,
    STATISTICS: 'on',
    METRICS_TOKEN,
  }
  return startObjectSite({
    ...{ bundle: inject('bundle'), variables, points: 2 },
    api: (_, response) => response.setHeader('X-Units', '7').end('hello'),
  })
})

let requested = 0
/** Asks the gateways in turn. */
async function ask(token: string, { path = '/', ...fields }: Record<string, string> = {}): Promise<Response> {
  const url = new URL(path, site.urls[requested++ % 2])
  const response = await fetch(url, {
    headers: { 'X-Team': token, 'X-House': token, ...fields, Authorization: `Bearer ${token}` },
  })
  await response.text()
  return response
}

async function statuses(count: number, ...of: Parameters<typeof ask>): Promise<number[]> {
  const seen: number[] = []
  for (let i = 0; i < count; i++) seen.push((await ask(...of)).status)
  return seen
}

describe('gateways that share Durable Objects, and no Redis', () => {
  test('hold one limit together', async () => {
    const team = () => ({ 'X-Team': crypto.randomUUID() })
    const seen: number[] = []
    for (let i = 0; i < 7; i++) seen.push((await ask('one', team())).status)
    expect(seen).toEqual([200, 200, 200, 200, 200, 429, 429])
  })

  test('charge no policy for what another refuses', async () => {
    expect(await statuses(4, 'alpha', { 'X-Team': 'shared' })).toEqual([200, 200, 200, 429])
    expect(await statuses(3, 'alpha', { 'X-Team': 'other' })).toEqual([200, 200, 429])
  })

  test('keep what was counted when all objects crash', async () => {
    expect(await statuses(2, 'beta')).toEqual([200, 200])
    expect(await site.abort()).toBeGreaterThan(0)
    expect(await statuses(2, 'beta')).toEqual([200, 429])
  })

  test('limit the new identities of a house', async () => {
    const house = { path: '/new', 'X-House': 'one' }
    const seen: number[] = []
    for (const token of ['new-1', 'new-2', 'new-3', 'new-1']) seen.push((await ask(token, house)).status)
    expect(seen).toEqual([200, 200, 429, 200])
  })

  test('charge what a request turned out to cost', async () => {
    const left = async () =>
      /"units-1h";r=(\d+)/.exec((await ask('settled', { path: '/units' })).headers.get('ratelimit') ?? '')?.[1]
    expect(await left()).toBe('80')
    // The estimate of the first has become 7.
    await expect.poll(async () => Number(await left())).toBeGreaterThan(70)
  })

  test('give slots back', async () => {
    expect(await statuses(3, 'slots', { path: '/slots' })).toEqual([200, 200, 200])
  })

  test('follow the same rules, also after all objects have crashed', async () => {
    const authorized = { Authorization: `Bearer ${ADMIN_TOKEN}`, 'Content-Type': 'application/json' }
    const admin = async (at: number, path: string, body?: object) => {
      const url = new URL(`/_sluice/admin/${path}`, site.urls[at])
      const init = body ? { method: 'POST', body: JSON.stringify(body) } : {}
      return (await fetch(url, { headers: authorized, ...init })).json()
    }
    const block = (at: number, token: string, expectedVersion: number) =>
      admin(at, 'block', {
        target: { token: `Bearer ${token}` },
        actor: 'test',
        comment: `for ${token}`,
        expectedVersion,
      })
    expect(await block(0, 'blocked-1', 0)).toMatchObject({ version: 1 })
    expect(await block(1, 'blocked-2', 1)).toMatchObject({ version: 2 })
    expect(await block(0, 'blocked-3', 1)).toMatchObject({ status: 409 })
    for (const token of ['blocked-1', 'blocked-2']) {
      await expect.poll(() => statuses(2, token)).toEqual([403, 403])
    }
    await site.abort()
    const { versions } = (await admin(1, 'versions')) as { versions: unknown }
    expect(versions).toMatchObject([{ version: 2, comment: 'for blocked-2' }, { version: 1 }])
    expect(await admin(1, 'rollback', { version: 1, section: 'blocks', actor: 'test', comment: 'test' })).toMatchObject(
      {
        version: 3,
      },
    )
    // A gateway that knows it first admits it while the other one does not, which uses up its limit.
    await expect.poll(() => statuses(2, 'blocked-2')).not.toContain(403)
    expect(await statuses(2, 'blocked-1')).toEqual([403, 403])
  })

  test('show what all of them have counted', { tags: ['slow'] }, async () => {
    const read = async (at: number, path: string, token: string) => {
      const url = new URL(`/_sluice/${path}`, site.urls[at])
      return (await fetch(url, { headers: { Authorization: `Bearer ${token}` } })).text()
    }
    const counted = async (at: number) => {
      const { total } = JSON.parse(await read(at, 'admin/statistics', ADMIN_TOKEN))
      return Object.values(total.requests as Record<string, number>).reduce((sum, count) => sum + count)
    }
    expect(await statuses(6, 'counted')).toEqual([200, 200, 200, 429, 429, 429])
    // Flushes come 20 seconds after what they hold.
    for (const at of [0, 1]) await expect.poll(() => counted(at)).toBe(requested)
    expect(await read(1, 'metrics', METRICS_TOKEN)).toMatch(/^sluice_requests_total\{outcome="limited"\} [1-9]/m)
  })

  test('name their store in health', async () => {
    const health = await (await fetch(new URL('/_sluice/health', site.urls[0]))).json()
    expect(health).toMatchObject({ status: 'ok', store: { kind: 'durable-object', reachable: true } })
  })
})

test('requests that are broken off before they are decided are given back, in one message to each object', async () => {
  const own = await startObjectSite({
    bundle: inject('bundle'),
    variables: {
      POLICIES: [
        { name: 'caller', by: 'token', limits: '1000/1h' },
        { name: 'all', by: 'global', algorithm: 'quota', limits: '1000/1h' },
      ],
    },
    points: 1,
    records: true,
  })
  onTestFinished(() => own.stop())
  const url = own.urls[0] as URL
  await (await fetch(url, { headers: { Authorization: 'Bearer warm' } })).text()
  await own.record()
  const count = 20
  await own.withBusyObjects(async () => {
    const sockets = await Promise.all(
      Array.from({ length: count }, async (_, n) => {
        const socket = connect(Number(url.port), url.hostname)
        socket.on('error', () => {})
        await once(socket, 'connect')
        socket.write(`GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${n % 4}\r\n\r\n`)
        return socket
      }),
    )
    // Long enough for some of them to have been asked about, and to be seen to have gone.
    await sleep(200)
    for (const socket of sockets) socket.resetAndDestroy()
    await sleep(300)
  })
  const ends = new Map<string, number[]>()
  const openOnes = async () => {
    for (const { key, call } of await own.record()) {
      if (call[0] === 'reserve') ends.set(`${key} ${call[1].shared?.id}`, [])
      if (call[0] === 'close') ends.get(`${key} ${call[1].id}`)?.push(call[1].permits)
    }
    return [...ends.values()].filter((permits) => permits.length === 0).length
  }
  await (await fetch(url, { headers: { Authorization: 'Bearer last' } })).text()
  await expect.poll(openOnes).toBe(0)
  expect([...ends.values()].every((permits) => permits.length === 1)).toBe(true)
  // The one that was not broken off is kept by both of its objects.
  const kept = [...ends.values()].filter(([permits]) => permits === 1).length
  expect(kept).toBeGreaterThanOrEqual(2)
  expect(kept).toBeLessThan(2 * count)
})
