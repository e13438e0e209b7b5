import { randomUUID } from 'node:crypto'
import { describe, expect, inject, test } from 'vitest'
import { PLANTED } from '../setup/secret-watch.ts'
import { redisBindings } from '../support/gateway.ts'
import { startObjectSite } from '../support/object-site.ts'
import { share } from '../support/share.ts'

const ADMIN_TOKEN = `${PLANTED}-for-operators-who-move`
/** The gateway that has not moved yet counts in Redis, the one that has, in objects. */
const [BEFORE, AFTER] = [0, 1]

const site = share(() => {
  const shared = {
    ...redisBindings(),
    RATE_LIMITS: '5/1h',
    POLICIES: [
      { name: 'team', by: 'header:x-team', anonymous: 'skip', limits: '20/1h', algorithm: 'token-bucket' },
      {
        name: 'units',
        by: 'header:x-units',
        anonymous: 'skip',
        algorithm: 'quota',
        limits: '100/1h',
        cost: 20,
        actual_cost: 'header:x-units',
        untold: 1,
      },
      { name: 'guarded', by: 'header:x-guarded', anonymous: 'skip', limits: '1/1h', penalty: '2h', penalty_after: 2 },
      { name: 'slots', by: 'token', algorithm: 'concurrency', limits: '2', match: '/slots' },
    ],
    RULES: 'on',
    RULES_REFRESH_MS: 100,
    ADMIN_TOKEN,
    STATISTICS: 'on',
  }
  const variables = [
    { ...shared, STORE: 'redis', STORE_MIRROR: 'durable-object' },
    { ...shared, STORE: 'durable-object', STORE_MIRROR: 'redis' },
  ]
  return startObjectSite({
    ...{ bundle: inject('bundle'), variables, points: 2 },
    api(request, response) {
      if (request.url === '/slots') setTimeout(() => response.end('hello'), 100)
      else response.setHeader('X-Units', '7').end('hello')
    },
  })
})

async function ask(at: number, token: string, fields: Record<string, string> = {}, path = '/'): Promise<Response> {
  const response = await fetch(new URL(path, site.urls[at]), {
    headers: { ...fields, Authorization: `Bearer ${token}` },
  })
  await response.text()
  return response
}

async function statuses(at: number, count: number, ...of: [string, Record<string, string>?, string?]) {
  const seen: number[] = []
  for (let i = 0; i < count; i++) seen.push((await ask(at, ...of)).status)
  return seen
}

async function admin(at: number, path: string, body?: object) {
  const headers = { Authorization: `Bearer ${ADMIN_TOKEN}`, 'Content-Type': 'application/json' }
  const init = body ? { method: 'POST', body: JSON.stringify(body) } : {}
  return (await fetch(new URL(`/_sluice/admin/${path}`, site.urls[at]), { headers, ...init })).json()
}

interface LimitUsed {
  readonly policy: string
  readonly remaining: number
  readonly penaltyUntilMs: number | null
}

/** The limit of a policy, as one of the stores knows it. */
async function findLimit(at: number, policy: string, caller: object): Promise<LimitUsed | undefined> {
  const { limits } = (await admin(at, 'usage', { caller })) as { readonly limits: readonly LimitUsed[] }
  return limits.find((each) => each.policy === policy)
}

/** Units left of a policy. */
async function readRemaining(at: number, policy: string, caller: object): Promise<number | undefined> {
  return (await findLimit(at, policy, caller))?.remaining
}

describe.each([
  ['Redis', 'Durable Objects', BEFORE, AFTER],
  ['Durable Objects', 'Redis', AFTER, BEFORE],
] as const)('a move from %s to %s', (_from, _to, before, after) => {
  test('gives a caller its limit once', async () => {
    const token = randomUUID()
    expect(await statuses(before, 3, token)).toEqual([200, 200, 200])
    await expect.poll(() => readRemaining(after, 'default', { token: `Bearer ${token}` })).toBe(2)
    expect(await statuses(after, 3, token)).toEqual([200, 200, 429])
    // And back.
    await expect.poll(() => readRemaining(before, 'default', { token: `Bearer ${token}` })).toBe(0)
    expect(await statuses(before, 1, token)).toEqual([429])
  })

  test('knows what requests have cost in the end, and charges no policy for what another refuses', async () => {
    const [units, team] = [randomUUID(), randomUUID()]
    const token = randomUUID()
    await statuses(before, 7, token, { 'X-Units': units, 'X-Team': team })
    // Five of the seven, at 7 units each.
    await expect.poll(() => readRemaining(after, 'units', { header: { 'x-units': units } })).toBe(65)
    await expect.poll(() => readRemaining(after, 'team', { header: { 'x-team': team } })).toBe(15)
  })

  test('takes slots along, and gives them back', async () => {
    const token = randomUUID()
    const requested = [1, 2, 3].map(() => ask(before, token, {}, '/slots'))
    expect((await Promise.all(requested)).map(({ status }) => status).sort()).toEqual([200, 200, 429])
    const caller = { token: `Bearer ${token}`, route: 'GET /slots' }
    await expect.poll(() => readRemaining(after, 'slots', caller)).toBe(2)
  })

  test('keeps a caller under a penalty out', async () => {
    const guarded = randomUUID()
    const caller = { header: { 'x-guarded': guarded } }
    expect(await statuses(before, 3, randomUUID(), { 'X-Guarded': guarded })).toEqual([200, 429, 429])
    const penaltyUntilMs = async (at: number) => (await findLimit(at, 'guarded', caller))?.penaltyUntilMs
    await expect.poll(() => penaltyUntilMs(after)).toEqual(expect.any(Number))
    const [first, second] = [await penaltyUntilMs(before), await penaltyUntilMs(after)]
    expect(Math.abs((second ?? 0) - (first ?? 0))).toBeLessThan(60_000)
    expect(await statuses(after, 1, randomUUID(), { 'X-Guarded': guarded })).toEqual([429])
  })

  test('keeps a blocked caller out, and resets a caller in both stores', async () => {
    const [blocked, reset] = [randomUUID(), randomUUID()]
    const target = { token: `Bearer ${blocked}` }
    expect(await admin(before, 'block', { target, actor: 'test', comment: 'test' })).toMatchObject({
      version: expect.any(Number),
    })
    for (const at of [before, after]) await expect.poll(() => statuses(at, 1, blocked)).toEqual([403])
    // And who is reset is so in both.
    await statuses(before, 5, reset)
    await expect.poll(() => readRemaining(after, 'default', { token: `Bearer ${reset}` })).toBe(0)
    await admin(before, 'reset', { caller: { token: `Bearer ${reset}` } })
    for (const at of [before, after]) expect(await readRemaining(at, 'default', { token: `Bearer ${reset}` })).toBe(5)
  })
})

test('a move is counted, and an outage of the other store changes nothing', { tags: ['slow'] }, async () => {
  const token = randomUUID()
  for (let i = 0; i < 3; i++) expect(await statuses(BEFORE, 5, randomUUID())).toEqual([200, 200, 200, 200, 200])
  await site.withoutStore(async () => {
    expect(await statuses(BEFORE, 6, token)).toEqual([200, 200, 200, 200, 200, 429])
  })
  const counted = async () => {
    const { total } = (await admin(BEFORE, 'statistics')) as { total: { mirror: Record<string, number> } }
    return total.mirror
  }
  await expect.poll(counted).toMatchObject({
    refusedByMirrorOnly: 0,
    decisions: expect.toSatisfy((count: number) => count > 10),
    failures: expect.toSatisfy((count: number) => count > 0),
  })
})
