import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { allow, block, override } from '../../src/gateway/admin/operations/rules.ts'
import { usage } from '../../src/gateway/admin/operations/usage.ts'
import { versions } from '../../src/gateway/admin/operations/versions.ts'
import { findFreePort } from '../../tools/free-port.ts'
import { PLANTED } from '../setup/secret-watch.ts'
import { expectAnswer } from './documented.ts'
import { ownSite } from './own-site.ts'

const POLICIES = [{ name: 'things', limits: '1/1h', by: 'header:x-api-key', anonymous: 'skip', match: 'GET /things' }]
const site = ownSite({ RATE_LIMITS: '100/1h', RULES: 'on', RULES_REFRESH_MS: '100', POLICIES })
const { run } = site

/** What `--json` prints of a command that succeeds. */
async function said(args: readonly string[], input?: string) {
  const { code, stdout, stderr } = await run([...args, '--json'], input)
  expect([code, stderr]).toEqual([0, ''])
  return JSON.parse(stdout)
}

test('block looks for no rules in Redis if Durable Objects keep them', async () => {
  const { code, stderr } = await run(['block', '--list'], undefined, { STORE: 'durable-object' })
  expect([code, stderr]).toEqual([2, expect.stringMatching(/^error: counts are in Durable Objects; use --gateway/)])
})

/** Asks the gateway until it answers so, for the rules come to it a little later. */
async function expectStatus(status: number, headers: Record<string, string>, path = '/'): Promise<Response> {
  for (let tries = 0; ; tries++) {
    const response = await fetch(new URL(path, site.gateway.url), { headers })
    if (response.status === status || tries === 400) {
      expect(response.status).toBe(status)
      return response
    }
    await response.arrayBuffer()
    // Told by the gateway: it looks again after RULES_REFRESH_MS, when a request comes.
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

test('sluice block keeps a token out, says why, and lets it in again; the token is kept nowhere', async () => {
  const token = `${PLANTED}-blocked`
  const headers = { Authorization: `Bearer ${token}` }
  await expectStatus(200, headers)
  const args = ['block', '-', '--for', '1h', '--reason', 'too much', '--status', '404']
  const outcome = await run([...args, '--json'], `${token}\n`)
  expectAnswer(block, outcome.stdout)
  const { changed, entry } = JSON.parse(outcome.stdout)
  expect(changed).toBe(true)
  expect(entry).toEqual({
    by: 'token',
    digest: expect.any(String),
    status: 404,
    reason: 'too much',
    until: expect.any(String),
  })
  expect(Math.abs(Date.parse(entry.until) - Date.now() - 3_600_000)).toBeLessThan(60_000)
  const response = await expectStatus(404, headers)
  expect(await response.text()).toContain('too much')
  await expectStatus(200, { Authorization: 'Bearer somebody-else' })
  expect(JSON.stringify(await site.redis.hGetAll(`${site.keyPrefix}:rules`))).not.toContain(token)

  const { stdout } = await run(['block', '--list'])
  expect(stdout).toMatch(/^target +block +until +reason\ntoken \S{22} +answered 404 +\S+Z +too much\n$/)
  // By its digest as well as by what it sends.
  expect(await said(['block', '-', '--remove'], token)).toMatchObject({ changed: true, entry: null })
  expect(await said(['block', '-', '--remove'], token)).toMatchObject({ changed: false })
  await expectStatus(200, headers)
})

test('sluice block names a caller by a cookie, and says where it holds if it is by a digest alone', async () => {
  const headers = { Cookie: 'sid=cookie-1' }
  const { stdout } = await run(['block', '--cookie', 'sid=cookie-1', '--json'])
  expect(JSON.parse(stdout)).toMatchObject({
    scope: 'all',
    entry: { by: 'cookie:sid', digest: expect.any(String) },
  })
  await expectStatus(403, headers)
  await said(['block', '--cookie', 'sid=cookie-1', '--remove'])
  await expectStatus(200, headers)
  const digest = '4Xb7m1nJ0yKq8rT2vZc5Lw'
  const alone = await run(['block', '--digest', digest, '--json'])
  expect(alone.stderr).toMatch(/^note: a rule by a digest alone applies only where a policy counts by exactly /)
  expect(JSON.parse(alone.stdout)).toMatchObject({ scope: 'counted' })
  await said(['block', '--digest', digest, '--remove'])
  const wrong = await run(['block', '--json-member', '/user=alice'])
  expect([wrong.code, wrong.stderr]).toEqual([
    2,
    expect.stringMatching(/^error: --json-member: expected what a policy/),
  ])
})

test('sluice allow goes before sluice block of a network', async () => {
  const inside = { 'CF-Connecting-IP': '203.0.113.7' }
  await run(['block', '--cidr', '203.0.113.0/24'])
  await expectStatus(403, inside)
  const { stdout } = await run(['allow', '--ip', '203.0.113.7', '--json', '--reason', 'ours'])
  expectAnswer(allow, stdout)
  await expectStatus(200, inside)
  await expectStatus(403, { 'CF-Connecting-IP': '203.0.113.8' })
  for (const args of [
    ['block', '--cidr', '203.0.113.0/24', '--remove'],
    ['allow', '--ip', '203.0.113.7', '--remove'],
  ])
    await said(args)
  await expectStatus(200, { 'CF-Connecting-IP': '203.0.113.8' })
})

test('sluice override raises the limits of a caller, and refuses policies that there are not', async () => {
  const headers = { 'X-Api-Key': 'k-1', Authorization: 'Bearer with-key' }
  await expectStatus(200, headers, '/things')
  await expectStatus(429, headers, '/things')
  const { stdout } = await run(['override', '-H', 'X-Api-Key=k-1', '--limits', 'things=30/1h', '--json'])
  expectAnswer(override, stdout)
  expect(JSON.parse(stdout).entry).toMatchObject({ by: 'header:x-api-key', limits: { things: '30/1h' } })
  await expectStatus(200, headers, '/things')
  const wrong = await run(['override', '-H', 'X-Api-Key=k-2', '--limits', 'thing=30/1h'])
  expect(wrong.code).toBe(2)
  expect(wrong.stderr).toContain('expected the name of a policy, "default" or "things", got "thing"')
  expect((await said(['override', '--list'])).overrides.length).toBe(1)
  await said(['override', '--header', 'x-api-key=k-*', '--unlimited', '-p', 'things'])
  await said(['override', '--claim', 'sub=acme-*', '--multiplier', '2.5'])
  expect((await run(['override', '--list'])).stdout).toMatch(
    /header:x-api-key k-\* +unlimited of things[\s\S]*claim:sub acme-\* +limits × 2\.5/,
  )
  for (const who of ['-H=x-api-key=k-1', '-H=x-api-key=k-*', '--claim=sub=acme-*']) {
    await said(['override', ...(who.startsWith('-H') ? ['-H', who.slice(3)] : [who]), '--remove'])
  }
  expect((await said(['override', '--list'])).overrides).toEqual([])
})

describe('sluice policies', () => {
  const FILE = `# Tighter.
[[policies]]
name = "things"
limits = "3/1h"
by = "header:x-api-key"
anonymous = "skip"
match = ["GET /things"]

[[policies]]
name = "more"
limits = "5/1m"
`

  test('shows, compares, puts in force, lists and rolls back', async () => {
    const headers = { 'X-Api-Key': 'k-3', Authorization: 'Bearer third' }
    const file = join(site.cwd, 'policies.toml')
    await writeFile(file, FILE)
    const before = await said(['policies', 'show'])
    expect(before).toMatchObject({ source: 'POLICIES', policies: POLICIES })
    const compared = await run(['policies', 'diff', file, '--json'])
    expect(JSON.parse(compared.stdout).changes).toEqual([
      {
        policy: 'things',
        change: 'changed',
        keys: [
          { key: 'limits', before: '"1/1h"', after: '"3/1h"' },
          { key: 'match', before: '"GET /things"', after: '["GET /things"]' },
        ],
      },
      { policy: 'more', change: 'added', keys: [{ key: 'limits', before: null, after: '"5/1m"' }] },
    ])
    // Nobody is there to be asked.
    expect(await run(['policies', 'push', file])).toMatchObject({ code: 2, stderr: expect.stringContaining('--yes') })
    expect((await said(['policies', 'show'])).version).toBe(before.version)

    const pushed = await run(['policies', 'push', file, '--yes', '--json', '--actor', 'ann', '--comment', 'attack'])
    expect(JSON.parse(pushed.stdout)).toMatchObject({ changed: true, version: before.version + 1 })
    await expectStatus(200, headers, '/things')
    await expectStatus(200, headers, '/things')
    expect(await said(['policies', 'push', file, '--yes'])).toMatchObject({ changed: false, changes: [] })
    expect(await said(['policies', 'diff', '-'], '[{ "name": "more", "limits": "5/1m" }]')).toMatchObject({
      changes: [{ policy: 'things', change: 'removed' }],
    })

    const listed = await run(['policies', 'versions', '--json'])
    expectAnswer(versions, listed.stdout)
    expect(JSON.parse(listed.stdout).versions[0]).toMatchObject({
      version: before.version + 1,
      actor: 'ann',
      comment: 'attack',
    })
    expect((await run(['policies', 'diff', `${before.version}`])).stdout).toContain('~ things (changed)')
    // What is shown can be pushed, as text and as JSON.
    for (const args of [[], ['--json']]) {
      const { stdout } = await run(['policies', 'show', ...args])
      expect(await said(['policies', 'push', '-', '--yes'], stdout)).toMatchObject({ changed: false })
    }
    await said(['block', '--asn', '64500', '--comment', 'one\n[[policies]]\u001b[2J'])
    expect((await run(['policies', 'show'])).stdout).toContain(': one [[policies]] [2J\n')
    expect((await run(['policies', 'versions'])).stdout).not.toContain('\u001b')
    // Without $USER and --actor, it is whose account it is.
    expect((await said(['policies', 'versions'])).versions[0].actor).toBe(userInfo().username)
    const back = await said(['policies', 'rollback', `${before.version}`, '--yes'])
    expect(back).toMatchObject({ changed: true, version: before.version + 3 })
    expect(await said(['policies', 'show'])).toMatchObject({ source: 'POLICIES' })
    expect((await said(['block', '--list'])).blocks).toEqual([{ asn: 64500 }])
    const all = ['policies', 'rollback', `${before.version}`, '--section', 'all', '--yes']
    expect(await said(all)).toMatchObject({ changed: true, version: before.version + 4 })
    expect((await said(['block', '--list'])).blocks).toEqual([])
  })

  test('goes back from rules that another release has written, which it cannot read', async () => {
    const { version } = await said(['block', '--asn', '64501'])
    const key = `${site.keyPrefix}:rules`
    const text = '{"blocks":[{"cidr":"203.0.113.0/24","note":"x"}]}'
    await site.redis.hSet(key, { [`${version}`]: text })
    const { code, stderr } = await run(['block', '--ip', '192.0.2.77'])
    expect([code, stderr]).toEqual([
      3,
      expect.stringContaining('the stored rules are invalid: rules.blocks[0].note: unknown field'),
    ])
    expect(stderr).toContain('Roll back all of them to an older version, or to 0')
    const back = ['policies', 'rollback', '0', '--section', 'all', '--yes']
    expect(await said(back)).toMatchObject({ changed: true, version: version + 1 })
    expect((await said(['block', '--list'])).blocks).toEqual([])
    expect(await said(back)).toMatchObject({ changed: false })
  })

  test('tries a policy in shadow mode alongside the others, and ends that', async () => {
    const headers = { 'X-Api-Key': 'k-4', Authorization: 'Bearer fourth' }
    await expectStatus(200, headers, '/things')
    await expectStatus(429, headers, '/things')
    const shown = await run(['policies', 'show'])
    const trial = '\n[[policies]]\nname = "trial"\nlimits = "1/1h"\nby = "header:x-api-key"\nmode = "shadow"\n'
    expect(await said(['policies', 'push', '-', '--yes'], `${shown.stdout}${trial}`)).toMatchObject({
      changed: true,
      changes: [{ policy: 'trial', change: 'added' }],
    })
    expect((await run(['policies', 'show'])).stdout).toContain('mode = "shadow"')
    await said(['policies', 'push', '--clear', '--yes'])
    expect(await said(['policies', 'show'])).toMatchObject({ source: 'POLICIES', policies: POLICIES })
  })

  test.each([
    ['[[policies]]\nname = "a"\nlimits = "often"\n', 'standard input:3:10: POLICIES[0].limits: expected limits'],
    ['{ "policies": [{ "name": "a", "limits": "5/1m", "by": "x" }] }', 'standard input:1:55: POLICIES[0].by'],
    ['[[policies]\n', 'standard input:1:'],
    ['[[policy]]\nname = "a"\n', 'standard input: expected [[policies]] tables'],
  ])('refuses %j with its place', async (input, message) => {
    const { code, stdout, stderr } = await run(['policies', 'push', '-', '--yes'], input)
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain(`error: ${message}`)
  })
})

describe('rules are refused', () => {
  const COMMANDS: readonly (readonly string[])[] = [
    ['block', PLANTED],
    ['allow', PLANTED],
    ['override', PLANTED, '--unlimited'],
    ['policies', 'show'],
  ]

  test.each(COMMANDS.map((args) => ({ args })))(
    'sluice $args.0 with a token that is not the database’s, and with one that is unavailable',
    async ({ args }) => {
      const wrong = await run(args, undefined, { UPSTASH_REDIS_REST_TOKEN: `${PLANTED}-wrong` })
      expect([wrong.code, wrong.stdout]).toEqual([3, ''])
      expect(wrong.stderr).toContain('WRONGPASS')
      for (const scheme of ['redis', 'http']) {
        const unavailable = await run([...args, '--redis', `${scheme}://127.0.0.1:${await findFreePort()}`])
        expect([unavailable.code, unavailable.stdout]).toEqual([3, ''])
        expect(unavailable.stderr).toContain('cannot be reached (ECONNREFUSED)')
      }
    },
  )

  test('where the key is somebody else’s, which is left as it is', async () => {
    const prefix = `foreign-${randomUUID()}`
    await site.redis.set(`${prefix}:rules`, 'theirs')
    for (const args of [...COMMANDS, ['policies', 'push', '--clear', '--yes']]) {
      const { code, stderr } = await run(args, undefined, { KEY_PREFIX: prefix })
      expect(code).toBe(3)
      expect(stderr).toContain('WRONGTYPE')
      expect(stderr).not.toContain(PLANTED)
    }
    expect(await site.redis.get(`${prefix}:rules`)).toBe('theirs')
    await site.redis.del(`${prefix}:rules`)
  })
})

describe('sluice usage shows what the rules order for a caller', () => {
  const token = 'a-caller-with-orders'
  const caller = [token, '-H', 'x-api-key=k-9']

  test('a block, an override, and nobody whom they are not about', async () => {
    await said(['override', '-H', 'x-api-key=k-9', '--limits', 'things=30/1h'])
    await said(['override', token, '--unlimited', '-p', 'default'])
    await expectStatus(200, { Authorization: token, 'X-Api-Key': 'k-9' }, '/things')
    const { stdout } = await run(['usage', ...caller, '--json'])
    expectAnswer(usage, stdout)
    const { blocked, limits } = JSON.parse(stdout)
    expect(blocked).toBeNull()
    expect(limits).toMatchObject([
      { policy: 'default', limit: 100, configuredLimit: 100, unlimited: true, used: 1 },
      { policy: 'things', limit: 30, configuredLimit: 1, unlimited: false, used: 1, remaining: 29 },
    ])
    expect((await run(['usage', ...caller])).stdout).toMatch(
      /\ndefault-1h: never limited\nthings-1h: set by a rule; others have 1\n$/,
    )
    await said(['block', token, '--reason', 'why not', '--for', '1h'])
    const applyRules = await run(['usage', ...caller, '--json'])
    expectAnswer(usage, applyRules.stdout)
    expect(JSON.parse(applyRules.stdout).blocked).toEqual({
      status: 403,
      reason: 'why not',
      shadow: false,
      untilMs: expect.any(Number),
    })
    expect((await run(['usage', ...caller])).stdout).toMatch(/^blocked: answered 403, until \S+Z, why not/)
    // Of whom only the digest is known.
    const digest = limits[0].key.slice(-23, -1)
    expect((await said(['usage', '--digest', digest])).blocked).toMatchObject({ status: 403 })
    const other = await said(['usage', 'somebody-else', '-H', 'x-api-key=k-1'])
    expect(other).toMatchObject({ blocked: null, limits: [{ unlimited: false }, { limit: 1, configuredLimit: 1 }] })
    for (const kind of ['block', 'override']) await said([kind, token, '--remove'])
    await said(['override', '-H', 'x-api-key=k-9', '--remove'])
  })

  test('and the policies that they have put in force, which sluice reset drops', async () => {
    const file = '[[policies]]\nname = "pushed"\nlimits = "5/1h"\n'
    await said(['policies', 'push', '-', '--yes'], file)
    expect((await said(['usage', token])).limits).toMatchObject([{ policy: 'default' }, { policy: 'pushed', limit: 5 }])
    expect(await said(['reset', token, '--policy', 'pushed', '--yes'])).toMatchObject({ keys: [{ policy: 'pushed' }] })
    await said(['policies', 'push', '--clear', '--yes'])
  })
})

test('policies show says of none that they are none, and writes no table that another one cannot follow', async () => {
  const { stdout } = await run(['policies', 'show'], undefined, { POLICIES: '' })
  expect(stdout).toMatch(/^#.*\n# those of POLICIES\n# none: RATE_LIMITS alone\n$/)
})

test('sluice says where rules may have no effect', async () => {
  const { code, stderr } = await run(['block', '--list'], undefined, { RULES: 'off' })
  expect(code).toBe(0)
  expect(stderr).toContain('note: RULES is off in this configuration')
})
