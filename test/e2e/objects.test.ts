import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { type ObjectSite, startObjectSite } from '../support/object-site.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'

let upstream: Upstream
let site: ObjectSite

beforeAll(async () => {
  upstream = await startUpstream((_, response) => response.setHeader('X-Units', '7').end('hello'))
  const variables = {
    UPSTREAM_URL: upstream.url,
    RATE_LIMITS: '5/1h',
    POLICIES: [
      { name: 'team', by: 'header:x-team', limits: '3/1h' },
      { name: 'newcomers', by: 'header:x-house', counts: 'identities', limits: '2/1h', match: 'GET /new' },
      {
        name: 'units',
        by: 'token',
        algorithm: 'quota',
        limits: '100/1h',
        cost: 20,
        settle: 'header:x-units',
        match: '/units',
      },
      { name: 'slots', by: 'token', algorithm: 'concurrency', limits: '1', match: '/slots' },
    ],
    STORE_TIMEOUT_MS: 30_000,
    ON_STORE_ERROR: 'closed',
  }
  site = await startObjectSite(inject('bundle'), variables, 2)
})
afterAll(async () => {
  await site?.stop()
  await upstream?.stop()
})

let asked = 0
/** Asks the gateways in turn. */
async function ask(token: string, { path = '/', ...fields }: Record<string, string> = {}): Promise<Response> {
  const url = new URL(path, site.urls[asked++ % 2])
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

  test('bound the newcomers of a house', async () => {
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

  test('say so', async () => {
    const health = await (await fetch(new URL('/_sluice/health', site.urls[0]))).json()
    expect(health).toMatchObject({ status: 'ok', store: { kind: 'durable-object', reachable: true } })
  })
})
