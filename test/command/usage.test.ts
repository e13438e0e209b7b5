import { describe, expect, inject, test } from 'vitest'
import type { CallerKind } from '../../src/core/model/identity-source.ts'
import { usage } from '../../src/gateway/admin/operations/usage.ts'
import { findFreePort } from '../../tools/free-port.ts'
import { PLANTED } from '../setup/secret-watch.ts'
import { expectAnswer } from './documented.ts'
import { ownSite } from './own-site.ts'
import { type Outcome, runCommand } from './run-command.ts'

const IP = '203.0.113.7'
const POLICIES = [
  { name: 'login', limits: '5/1h', by: 'ip', match: 'POST /login' },
  { name: 'key', limits: '7/1h', by: 'header:x-api-key', anonymous: 'skip', algorithm: 'quota' },
  { name: 'route', limits: '9/53w', by: 'token+route', match: 'GET /a, GET /b', algorithm: 'fixed-window' },
  { name: 'bucket', limits: '1/1h', burst: 20, algorithm: 'token-bucket' },
  { name: 'ban', limits: '3/1h', by: 'cookie:sid', anonymous: 'skip', match: 'GET /ban', penalty: '1d' },
]

const site = ownSite({ RATE_LIMITS: '10/1h, 100/1d', POLICIES })
const { run } = site

test('sluice usage looks into the database that is charged, also during a move', async () => {
  const env = { STORE: 'redis', STORE_MIRROR: 'durable-object' }
  expect(await run(['usage', '--ip', IP], undefined, env)).toMatchObject({ code: 0, stderr: '' })
})

test('sluice usage needs and writes nothing of what a gateway has besides counts', async () => {
  const token = (letter: string) => letter.repeat(32)
  const tokens = { ADMIN_TOKEN: token('a'), DECIDE_TOKEN: token('d'), METRICS_TOKEN: token('m') }
  const others = {
    STATISTICS: 'on',
    LOG_REFUSALS: '1',
    LEASES: 'auto',
    SHEDDING: 'on',
    CORS_ORIGINS: 'https://acme.test',
  }
  const before = await contents()
  const env = { ...tokens, ...others, ADMIN_HOST: 'ops.acme.test', SELF_SERVICE: 'on' }
  expect(await run(['usage', '--ip', IP], undefined, env)).toMatchObject({ code: 0, stderr: '' })
  expect(await contents()).toEqual(before)
})

const CONNECTIONS = [
  ['Upstash REST', []],
  ['redis://', ['--redis', `redis://127.0.0.1:${inject('redisPort')}`]],
] as const

/** Of each limit, what is used. */
const used = ({ stdout }: Outcome) =>
  Object.fromEntries(
    (JSON.parse(stdout).limits as { name: string; route: string | null; used: number }[]).map(
      ({ name, route, used }) => [route === null ? name : `${name} ${route}`, used],
    ),
  )

async function request(path: string, headers: Record<string, string>, method = 'GET'): Promise<void> {
  const response = await fetch(new URL(path, site.gateway.url), { method, headers })
  await response.arrayBuffer()
  expect(response.status).toBe(200)
}

/** All that Redis holds under the prefix. */
async function contents(): Promise<Record<string, string>> {
  const found: Record<string, string> = {}
  for (const key of (await site.redis.keys(`${site.keyPrefix}:*`)).toSorted()) {
    const type = await site.redis.type(key)
    const value = type === 'stream' ? await site.redis.xRange(key, '-', '+') : await site.redis.get(key)
    found[key] = JSON.stringify(value)
  }
  return found
}

describe.each(CONNECTIONS)('over %s', (kind, where) => {
  // Callers of their own.
  const token = `token-${kind.length}`
  const ip = `203.0.113.${kind.length}`

  test('sluice usage shows what the gateway has counted, and charges nothing', async () => {
    const headers = { Authorization: `Bearer ${token}`, 'CF-Connecting-IP': ip, 'X-Api-Key': token }
    await request('/a', headers)
    await request('/a', headers)
    await request('/login', headers, 'POST')
    const before = await contents()
    const args = ['usage', token, '--ip', ip, '-H', `x-api-key=${token}`, '--json', ...where]
    const outcome = await runCommand(args, { cwd: site.cwd })
    expect([outcome.code, outcome.stderr]).toEqual([0, ''])
    expect(used(outcome)).toEqual({
      'default-1h': 3,
      'default-1d': 3,
      'login-1h': 1,
      'key-1h': 3,
      'route-53w GET /a': 2,
      'route-53w GET /b': 0,
      'bucket-1h': 3,
    })
    expect(JSON.parse(outcome.stdout).skipped).toMatchObject([{ policy: 'ban' }])
    expectAnswer(usage, outcome.stdout)
    for (const { key, used: units } of JSON.parse(outcome.stdout).limits) expect(key in before).toBe(units > 0)
    expect(used(await run(args))).toEqual(used(outcome))
    expect(await contents()).toEqual(before)
  })

  test('sluice usage names policies that it cannot evaluate, and takes a digest in place of a caller', async () => {
    const { stdout } = await run(['usage', '-', '--json', ...where], `${token}\n`)
    expectAnswer(usage, stdout)
    const { limits, skipped } = JSON.parse(stdout)
    expect(skipped).toEqual([
      { policy: 'login', reason: 'it counts this caller by address', needs: 'ip' },
      { policy: 'key', reason: 'it counts by header:x-api-key', needs: 'header' },
      { policy: 'ban', reason: 'it counts by cookie:sid', needs: 'cookie' },
    ])
    expect((await run(['usage', '-', ...where], `${token}\n`)).stdout).toMatch(
      /\nlogin: skipped, it counts this caller by address: name it with --ip\nkey: .*: name it with --header\nban: .* --cookie\n$/,
    )
    const digest = limits[0].key.slice(-23, -1)
    const again = JSON.parse((await run(['usage', '--digest', digest, '--json', ...where])).stdout)
    expect(again.limits[0]).toMatchObject({ key: limits[0].key, used: 3, remaining: 7 })
  })

  test('sluice reset drops the caller in the policies named, and touches no other key', async () => {
    const others = { [`${site.keyPrefix}:default:w:{someone-else}`]: '1', [`foreign-${site.keyPrefix}`]: '2' }
    for (const [key, value] of Object.entries(others)) await site.redis.set(key, value)
    const caller = [token, '--ip', ip, '-H', `x-api-key=${token}`, ...where]
    const requested = await run(['reset', ...caller])
    expect([requested.code, requested.stderr]).toEqual([2, expect.stringContaining('Add --yes')])
    expect(used(await run(['usage', ...caller, '--json']))).toMatchObject({ 'default-1h': 3, 'login-1h': 1 })

    const one = await run(['reset', ...caller, '--policy', 'login', '--yes', '--json'])
    expect(one.code).toBe(0)
    expect(JSON.parse(one.stdout)).toMatchObject({ reset: true, keys: [{ policy: 'login', used: 1 }], skipped: [] })
    expect(used(await run(['usage', ...caller, '--json']))).toMatchObject({ 'default-1h': 3, 'login-1h': 0 })

    expect((await run(['reset', ...caller, '--yes'])).stdout).toMatch(/^reset:\n/)
    expect(new Set(Object.values(used(await run(['usage', ...caller, '--json']))))).toEqual(new Set([0]))
    for (const [key, value] of Object.entries(others)) expect(await site.redis.get(key)).toBe(value)
    await site.redis.del(Object.keys(others))
  })
})

test('sluice usage and reset name a caller by every kind of identity', async () => {
  const said: Readonly<Record<CallerKind, readonly [by: string, args: readonly string[]]>> = {
    token: ['token', ['abc']],
    ip: ['ip', ['--ip', IP]],
    header: ['header:x-key', ['--header', 'X-Key=k']],
    query: ['query:key', ['--query', 'key=k']],
    cookie: ['cookie:sid', ['--cookie', 'sid=k']],
    form: ['form:user', ['--form', 'user=k']],
    json: ['json:/user/id', ['--json-member', '/user/id=k']],
    claim: ['claim:sub', ['--claim', 'sub=k']],
  }
  const policies = Object.entries(said).map(([name, [by]]) => ({ name, by, limits: '5/1h', anonymous: 'skip' }))
  const env = { POLICIES: JSON.stringify(policies), RATE_LIMITS: 'off', JWT_SECRET: `${PLANTED}-that-signs-tokens` }
  for (const [kind, [, args]] of Object.entries(said)) {
    for (const command of [['usage'], ['reset', '--yes']]) {
      const { stdout, stderr } = await run([...command, ...args, '--json'], undefined, env)
      expect(stderr).toBe('')
      const { limits, keys = limits } = JSON.parse(stdout)
      expect(keys.map(({ policy }: { policy: string }) => policy)).toEqual([kind])
    }
  }
})

test('sluice reset of a caller leaves what is counted for everyone, unless its policy is named', async () => {
  const policies = [
    { name: 'own', by: 'token', limits: '5/1h' },
    { name: 'total', by: 'global', limits: '9/1h' },
  ]
  const env = { POLICIES: JSON.stringify(policies), RATE_LIMITS: 'off' }
  const drop = async (...args: string[]) => {
    const { stdout } = await run(['reset', 'abc', '--yes', '--json', ...args], undefined, env)
    const { keys, skipped } = JSON.parse(stdout) as Record<'keys' | 'skipped', { policy: string }[]>
    return [keys.map(({ policy }) => policy), skipped.map(({ policy }) => policy)]
  }
  expect(await drop()).toEqual([['own'], ['total']])
  expect(await drop('--policy', 'total')).toEqual([['total'], []])
  const { stdout } = await run(['usage', 'abc', '--json'], undefined, env)
  expectAnswer(usage, stdout)
})

test('sluice usage without --json prints an aligned table without colours', async () => {
  const { stdout } = await run(['usage', 'nobody', '--ip', IP])
  expect(stdout).toMatch(/^name +limit +used +remaining +reset +retry +key\ndefault-1h +10 +0 +10 +– +– +command-/)
})

test('sluice usage shows until when a caller has a penalty, and what it has used; sluice reset lifts it', async () => {
  const ask = async () => {
    const headers = { Authorization: 'Bearer banned', Cookie: 'sid=banned' }
    const response = await fetch(new URL('/ban', site.gateway.url), { headers })
    return { status: response.status, body: (await response.json().catch(() => ({}))) as Record<string, unknown> }
  }
  for (let i = 0; i < 3; i++) expect((await ask()).status).toBe(200)
  const refused = await ask()
  expect(refused.status).toBe(429)
  expect(refused.body).toMatchObject({ retry_after_ms: 86_400_000, penalty_ms: 86_400_000 })
  // A caller by its key: a cookie is none of the options.
  const [key = ''] = await site.redis.keys(`${site.keyPrefix}:ban:*`)
  const caller = ['--digest', key.slice(key.indexOf('{') + 1, -1)]
  const requested = await run(['usage', ...caller, '--json'])
  expectAnswer(usage, requested.stdout)
  const { nowMs, limits } = JSON.parse(requested.stdout)
  const [ban, ...others] = limits.toReversed()
  expect(ban).toMatchObject({ policy: 'ban', used: 3, remaining: 0 })
  expect(ban.penaltyUntilMs).toBe(nowMs + ban.retryAfterMs)
  for (const other of others) expect(other.penaltyUntilMs).toBe(null)
  expect((await run(['usage', ...caller])).stdout).toMatch(/^ban: penalty until 2\d{3}-\d\d-\d\dT[\d:.]+Z, whatever/m)
  await run(['reset', ...caller, '--policy', 'ban', '--yes'])
  expect(JSON.parse((await run(['usage', ...caller, '--json'])).stdout).limits.at(-1).penaltyUntilMs).toBe(null)
})

test('sluice usage --watch reads again until Ctrl-C', async () => {
  const { code, stdout } = await runCommand(['usage', 'nobody', '--watch', '50ms', '--json'], {
    cwd: site.cwd,
    interruptAfterLines: 3,
  })
  expect(code).toBe(0)
  expect(stdout.trim().split('\n').length).toBeGreaterThanOrEqual(3)
})

describe('sluice usage says what is wrong', () => {
  test('with a token that is not the database’s', async () => {
    const env = { UPSTASH_REDIS_REST_TOKEN: `${PLANTED}-wrong` }
    const { code, stderr } = await run(['usage', 'x'], undefined, env)
    expect(code).toBe(3)
    expect(stderr).toMatch(/error: Redis answered an error: WRONGPASS .*\n {2}User, password or token are not/)
  })

  test.each(['redis', 'http'])('with a database that is unavailable, over %s', async (scheme) => {
    const port = await findFreePort()
    const url = `${scheme}://${scheme === 'redis' ? `:${PLANTED}@` : ''}127.0.0.1:${port}`
    const { code, stdout, stderr } = await run(['usage', 'x', '--json', '--redis', url])
    expect(code).toBe(3)
    expect(stderr).toContain(`127.0.0.1:${port} cannot be reached (ECONNREFUSED)`)
    expect(JSON.parse(stdout).error).toContain('cannot be reached')
  })

  test.each([
    [['usage', 'x', '--redis', `${PLANTED}:6379`]],
    [['usage', 'x', '--redis', `redis://:${PLANTED}%off@127.0.0.1:1`]],
    [['usage', 'x', '--redis', `redis://:${PLANTED}@127.0.0.1:1/abc`]],
    [['usage', 'x', '--redis', 'https://h']],
  ])('in %j', async (args) => {
    const { code, stdout, stderr } = await run(args)
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain('error: the URL of the database')
    expect(stderr).not.toContain(PLANTED)
  })

  test('with a configuration that the Worker refuses', async () => {
    const { code, stderr } = await run(['usage', 'x'], undefined, { RATE_LIMITS: 'never' })
    expect([code, stderr.split(':')[1]?.trim()]).toEqual([2, 'RATE_LIMITS'])
  })
})
