/** Callers by what their tokens say, for the command. */
import { expect, inject, test } from 'vitest'
import { signToken } from '../support/tokens.ts'
import { ownSite } from './own-site.ts'

const SECRET = 'a secret of thirty-two characters'
const POLICIES = [
  {
    name: 'users',
    limits: { free: '5/1h', pro: '9/1h' },
    by: 'claim:sub',
    plan: 'claim:/account/plan',
    default_plan: 'free',
  },
]

// The secret that verifies tokens is not known to the command.
const site = ownSite({ POLICIES }, { JWT_SECRET: SECRET })

const run = (...args: readonly string[]) =>
  site.run([...args, '--json']).then(({ code, stdout, stderr }) => ({
    code,
    stderr,
    result: stdout === '' ? undefined : JSON.parse(stdout),
  }))
const usage = (...args: readonly string[]) =>
  run('usage', '--redis', `redis://127.0.0.1:${inject('redisPort')}`, ...args)

async function call(claims: object): Promise<void> {
  const response = await fetch(site.gateway.url, {
    headers: { Authorization: `Bearer ${await signToken({ ...claims }, { secret: SECRET })}` },
  })
  await response.arrayBuffer()
  expect(response.status).toBe(200)
}

test('sluice usage shows a caller by what its token says, on its plan', async () => {
  await call({ sub: 'alice' })
  await call({ sub: 'alice', account: { plan: 'pro' } })
  await call({ sub: 42 })
  const { result } = await usage('--claim', 'sub=alice')
  expect(result.limits).toMatchObject([
    { policy: 'users', plan: 'free', assumed: true, limit: 5, used: 2, remaining: 3 },
    { policy: 'users', plan: 'pro', assumed: true, limit: 9, used: 2, remaining: 7 },
  ])
  const pro = await usage('--claim', 'sub=alice', '--claim', '/account/plan=pro')
  expect(pro.result.limits).toMatchObject([{ plan: 'pro', assumed: false, limit: 9, used: 2, remaining: 7 }])
  expect((await usage('--claim', 'sub:=42')).result.limits).toMatchObject([{ used: 1 }, { used: 1 }])
  expect((await usage('--claim', 'sub=42')).result.limits).toMatchObject([{ used: 0 }, { used: 0 }])
})

test('what a caller used is told whatever its plan, and nobody is said to be limited on a guess', async () => {
  for (let i = 0; i < 7; i++) await call({ sub: 'bob', account: { plan: 'pro' } })
  const { result } = await usage('--claim', 'sub=bob')
  expect(result.limits).toMatchObject([
    { plan: 'free', limit: 5, used: 7, remaining: 0, assumed: true },
    { plan: 'pro', limit: 9, used: 7, assumed: true, retryAfterMs: 0 },
  ])
  const port = inject('redisPort')
  const { stdout } = await site.run(['usage', '--redis', `redis://127.0.0.1:${port}`, '--claim', 'sub=bob'])
  expect(stdout).toContain('users: its plan is not known; --header or --claim names it')
  const top = await run('top', '--redis', `redis://127.0.0.1:${port}`)
  expect(top.result.busiest).toContainEqual(expect.objectContaining({ plan: 'pro', used: 7, limit: 9 }))
  expect(top.result.atLimit).toEqual([])
})

test('sluice usage says what it lacks to know a caller', async () => {
  const { result } = await usage('a-token')
  expect(result).toMatchObject({
    limits: [],
    skipped: [{ policy: 'users', reason: 'it counts by claim:sub, or by address without it', needs: 'claim' }],
  })
})

test.each([
  ['sub'],
  ['sub:=alice'],
  ['user.id=alice'],
  ['sub=alice', '--claim', 'sub=bob'],
  ['sub=alice', '--claim', '/sub/b=c'],
])('sluice usage refuses the claims %j %s %s, and repeats none', async (...args) => {
  const { code, stderr } = await usage('--claim', ...args)
  expect(code).toBe(2)
  expect(stderr).toMatch(/--claim: expected/)
  expect(stderr).not.toMatch(/alice|bob/)
})

test('sluice check says what policies make of claims', async () => {
  const { result } = await run('check', 'GET /', '--claim', 'sub=alice', '--claim', '/account/plan=pro')
  expect(result.ok).toBe(true)
  expect(result.request.policies).toMatchObject([
    { why: 'applies to every request; on the plan "pro"', identity: 'claim:sub', limits: ['9 per 1h'] },
  ])
  const without = await run('check', 'GET /', '--ip', '203.0.113.7')
  expect(without.result.request.policies).toMatchObject([
    { identity: 'ip (claim:sub is missing or unreadable)', limits: ['5 per 1h'] },
  ])
})
