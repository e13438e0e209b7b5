import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { findFreePort } from '../../tools/free-port.ts'
import { PLANTED } from '../setup/secret-watch.ts'
import { startGateway } from '../support/gateway.ts'
import { ADMIN_TOKEN } from '../support/operator.ts'
import { ownSite } from './own-site.ts'
import { type Outcome, runInside } from './run-command.ts'

const POLICIES = [
  { name: 'login', limits: '5/1h', by: 'ip', match: 'POST /login' },
  { name: 'key', limits: '7/1h', by: 'header:x-api-key', anonymous: 'skip' },
]
const site = ownSite({ RATE_LIMITS: '100/1h', RULES: 'on', POLICIES }, { ADMIN_TOKEN })
/** Where nothing is known but the token of the operators. */
let elsewhere: string

beforeAll(async () => {
  elsewhere = await mkdtemp(join(tmpdir(), 'sluice-gateway-'))
  await writeFile(join(elsewhere, '.dev.vars'), `ADMIN_TOKEN=${ADMIN_TOKEN}\n`)
})
afterAll(() => rm(elsewhere, { recursive: true }))

const overDatabase = site.run
const overGateway = (args: readonly string[], input = '') =>
  runInside([...args, '--gateway', site.gateway.url.href], { cwd: elsewhere, input })

/** Without the moment, the version and the place, which differ. */
function plain({ code, stdout, stderr }: Outcome): object {
  const text = (words: string) =>
    words
      .replaceAll(site.gateway.url.host, 'PLACE')
      .replaceAll(new URL(inject('redisRestUrl')).host, 'PLACE')
      .replace(/"(?:gateway|redis)":"PLACE"/, '"place"')
      .replace(/(version"?:? ?)\d+/g, '$1N')
      .replace(/("nowMs":|"atMs":)\d+/g, '$1N')
      .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'MOMENT')
  return { code, stdout: text(stdout), stderr: text(stderr) }
}

const DIGEST = 'A'.repeat(22)
const FILE = '[[policies]]\nname = "login"\nlimits = "9/1h"\nby = "ip"\nmatch = "POST /login"\n'
const WRONG = '[[policies]]\nname = "login"\nlimits = "often"\n\n[[policies]]\nname = "other"\nlimit = "1/1s"\n'

/** A command, what it reads from standard input, and what takes it back. */
const COMMANDS: readonly {
  readonly args: readonly string[]
  readonly input?: string
  readonly undo?: readonly string[]
}[] = [
  { args: ['usage', 'a-token', '--ip', '203.0.113.7', '-H', 'x-api-key=k-1'] },
  { args: ['usage', '-'], input: 'a-token' },
  { args: ['usage', '--digest', DIGEST] },
  { args: ['usage', 'a-token', '--route', 'POST /login'] },
  { args: ['reset', 'a-token'] },
  { args: ['reset', 'a-token', '--yes'] },
  { args: ['block', 'a-token', '--reason', 'why', '--for', '1h'], undo: ['block', 'a-token', '--remove'] },
  { args: ['block', '--claim', '/account/plan=pro'], undo: ['block', '--claim', '/account/plan=pro', '--remove'] },
  { args: ['block', '--country', 'de'], undo: ['block', '--country', 'de', '--remove'] },
  { args: ['block', '--asn', 'AS64500', '--status', '404'], undo: ['block', '--asn', '64500', '--remove'] },
  { args: ['allow', '--cidr', '198.51.100.0/28'], undo: ['allow', '--cidr', '198.51.100.0/28', '--remove'] },
  { args: ['allow', 'nobody', '--remove'] },
  {
    args: ['override', '-H', 'X-Api-Key=k-1', '--limits', 'key=70/1h'],
    undo: ['override', '-H', 'X-Api-Key=k-1', '--remove'],
  },
  {
    args: ['override', '-H', 'x-api-key=k-*', '--multiplier', '2', '-p', 'key'],
    undo: ['override', '-H', 'x-api-key=k-*', '--remove'],
  },
  { args: ['override', '--list'] },
  { args: ['policies', 'show'] },
  { args: ['policies', 'show', '0'] },
  { args: ['policies', 'show', '9999'] },
  { args: ['policies', 'diff', '-'], input: FILE },
  { args: ['policies', 'diff', '-'], input: WRONG },
  { args: ['policies', 'push', '-'], input: FILE },
  { args: ['policies', 'push', '-', '--yes'], input: FILE, undo: ['policies', 'push', '--clear', '--yes'] },
  { args: ['policies', 'push', '-', '--yes'], input: WRONG },
]

/** The inputs that are refused in one line, over a database and over a gateway. */
const REFUSED: readonly (readonly [args: readonly string[], message: string])[] = [
  [['usage'], 'expected a caller'],
  [['usage', 'x', '--digest', 'y'], 'expected --digest alone'],
  [['usage', '--digest', 'y*'], '--digest: expected 22'],
  [['usage', '-H', PLANTED], 'expected name=value'],
  [['usage', 'x', '--watch', 'often'], '--watch: expected a duration'],
  [['reset', 'x', '--policy', 'logon'], '--policy: expected one of default, login'],
  [['usage', '--ip', '203.0.113'], '--ip: expected an IPv4 or IPv6 address'],
  [['usage', '--route', 'login'], 'expected a request such as "POST /login"'],
  [['block'], 'name the target of the block'],
  [['block', 'x', '--ip', '203.0.113.7'], 'expected exactly one target'],
  [['block', 'x', '--list'], '--list takes no target'],
  [['block', 'x', '--for', 'ever'], '--for: expected a duration'],
  [['block', 'x', '--for', '1h', '--until', '2099-01-01T00:00:00Z'], '--for: expected for or until, not both'],
  [['block', 'x', '--until', '2001-01-01T00:00:00Z'], '--until: expected a moment that is yet to come'],
  [['block', 'x', '--until', 'soon'], '--until: expected a moment in UTC'],
  [['block', 'x', '--status', '200'], '--status: expected a status from 400 to 599'],
  [['block', '--cidr', '203.0.113.7/99'], '--cidr: expected'],
  [['block', '--country', 'Germany'], '--country: expected'],
  [['block', '--asn', 'x'], '--asn: expected a number'],
  [['block', '--digest', 'short'], '--digest: expected'],
  [['block', 'x', '--remove', '--reason', 'y'], '--remove: expected only the target beside it'],
  [['block', '--ip', '203.0.113'], '--ip: expected an IPv4 or IPv6 address'],
  [['allow', '--country', 'DE'], "unknown option '--country'"],
  [['override', 'x'], 'expected one of --limits, --multiplier and --unlimited'],
  [['override', 'x', '--multiplier', '0'], '--multiplier: expected a number above 0'],
  [['override', 'x', '--limits', 'a=b=c'], '--limits: expected limits such as'],
  [['policies', 'push'], 'policies push: expected a file'],
  [['policies', 'push', 'no-such.toml'], 'no-such.toml cannot be read (ENOENT)'],
  [['policies', 'rollback', 'x'], 'expected the number of a version'],
  [['policies', 'rollback', '9999'], 'version 9999 is not stored: only the last 20 are'],
  [['policies', 'drop'], "value 'drop' is invalid for argument 'action'"],
  [
    ['override', 'x', '--limits', 'nobody=1/1s'],
    'expected the name of a policy, "default" or "login" or "key", got "nobody"',
  ],
]

describe('says the same over a gateway as over its database', () => {
  test.each(COMMANDS)('sluice $args', async ({ args, input, undo }) => {
    const outcomes: object[] = []
    for (const run of [overDatabase, overGateway]) {
      // Text is made of the same values.
      outcomes.push(plain(await run([...args, '--json'], input)))
      if (undo) expect((await run(undo)).code).toBe(0)
    }
    expect(outcomes[1]).toEqual(outcomes[0])
  })

  test.each(REFUSED)('sluice %j is refused', async (args, message) => {
    const [first, second] = [await overDatabase(args), await overGateway(args)]
    expect([first.code, first.stdout]).toEqual([2, ''])
    expect(first.stderr).toContain(message)
    expect(first.stderr).not.toContain(PLANTED)
    expect(plain(second)).toEqual(plain(first))
  })

  test('sluice usage, as text', async () => {
    const args = ['usage', 'a-token', '--ip', '203.0.113.7', '-H', 'x-api-key=k-1']
    const [first, second] = [await overDatabase(args), await overGateway(args)]
    expect(second).toEqual(first)
    expect(first.stdout).toMatch(/^name +limit +used +remaining/)
  })

  test('sluice policies versions, which say what was done by whom', async () => {
    await overGateway(['block', 'a-token', '--actor', 'ann'])
    const [first, second] = [await overDatabase(['policies', 'versions']), await overGateway(['policies', 'versions'])]
    expect(second).toEqual(first)
    expect(first.stdout).toMatch(/\n +\d+ +\S+Z +ann +block token \S{22}\n/)
    await overGateway(['block', 'a-token', '--remove'])
  })
})

test('sluice block --gateway uses the secret of the gateway, and keeps the caller out', async () => {
  const token = `${PLANTED}-of-a-caller`
  expect(await overGateway(['block', '-'], token)).toMatchObject({ code: 0, stderr: '' })
  await expect
    .poll(() => fetch(site.gateway.url, { headers: { Authorization: `Bearer ${token}` } }).then(({ status }) => status))
    .toBe(403)
  expect((await overDatabase(['block', '-', '--remove'], token)).stdout).toMatch(/^removed: block token/)
})

describe('sluice says why a gateway did not answer', () => {
  const usage = async (url: string, env: Readonly<Record<string, string>> = {}) => {
    const { code, stdout, stderr } = await runInside(['usage', PLANTED, '--gateway', url], { cwd: elsewhere, env })
    expect(stdout).toBe('')
    expect(stderr).not.toContain(PLANTED)
    return { code, error: stderr.split('\n')[0] }
  }

  test('with another token', async () => {
    const { code, error } = await usage(site.gateway.url.href, { ADMIN_TOKEN: 'x'.repeat(32) })
    expect([code, error]).toEqual([3, `error: ${site.gateway.url.host} rejected ADMIN_TOKEN`])
  })

  test('without operators, or without rules', async () => {
    const others = await startGateway({ UPSTREAM_URL: site.upstream.url, RATE_LIMITS: '1/1s' })
    const none = `error: the admin API is disabled at ${others.url.host}`
    expect(await usage(others.url.href)).toEqual({ code: 3, error: none })
    await others.stop()
    const ruleless = await startGateway({ UPSTREAM_URL: site.upstream.url, RATE_LIMITS: '1/1s', ADMIN_TOKEN })
    const { code, stderr } = await runInside(['block', 'x', '--gateway', ruleless.url.href], { cwd: elsewhere })
    expect([code, stderr]).toEqual([
      2,
      'error: rules are disabled; set RULES = "on", and deploy or restart the gateway\n',
    ])
    await ruleless.stop()
  })

  test('that is unavailable, or none at all', async () => {
    const host = `127.0.0.1:${await findFreePort()}`
    const unavailable = `error: the gateway at ${host} cannot be reached (ECONNREFUSED)`
    expect(await usage(`http://${host}`)).toEqual({ code: 3, error: unavailable })
    expect((await usage(site.upstream.url)).error).toMatch(
      / answered something other than what this version of sluice knows/,
    )
    const moved = createServer((_request, response) => response.writeHead(302, { Location: site.upstream.url }).end())
    await new Promise<void>((resolve) => moved.listen(0, '127.0.0.1', resolve))
    const { port } = moved.address() as AddressInfo
    expect((await usage(`http://127.0.0.1:${port}`)).error).toMatch(/ answered 302, and not as the admin API/)
    moved.close()
  })

  test('whose store is unavailable', async () => {
    const lost = await startGateway({ ...site.variables, ...LOST, UPSTREAM_URL: site.upstream.url, ADMIN_TOKEN })
    const { code, error } = await usage(lost.url.href)
    expect([code, error]).toEqual([
      3,
      expect.stringContaining(`the gateway at ${lost.url.host} says: store unavailable`),
    ])
    await lost.stop()
  })
})

const LOST = { UPSTASH_REDIS_REST_URL: 'http://127.0.0.1:1', UPSTASH_REDIS_REST_TOKEN: 'x' }

test.each([
  [['usage', 'x', '--gateway', 'edge.example.com'], '--gateway: expected the URL of a gateway'],
  [['usage', 'x', '--gateway', 'http://edge.example.com'], '--gateway: expected https://'],
  [['usage', 'x', '--gateway', 'https://edge.example.com', '--redis', 'redis://x'], 'expected --gateway or --redis'],
  [['top', '--gateway', 'https://edge.example.com'], 'sluice top: --gateway is not for it'],
  [['expire', '--gateway', 'https://edge.example.com'], 'sluice expire: --gateway is not for it'],
  [['check', '--gateway=https://edge.example.com'], 'sluice check: --gateway is not for it'],
])('%j is refused in one line', async (args, message) => {
  const { code, stdout, stderr } = await runInside(args, { cwd: elsewhere })
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toContain(`error: ${message}`)
})

test.each([
  ['that no field can hold', `${PLANTED}-of-the-öperators-of-the-gateway-\u2713`],
  ['of two lines', `${PLANTED}-of-the-operators\nof-the-gateway`],
  ['that no gateway takes', 'short'],
])('an ADMIN_TOKEN %s is refused before any call', async (_name, token) => {
  const env = { ADMIN_TOKEN: token }
  const { code, stderr } = await runInside(['usage', 'x', '--gateway', site.gateway.url.href], { env })
  const expected = 'expected at least 32 characters of ASCII, none of them a space, got a value not shown here'
  expect([code, stderr.split('\n')[0]]).toEqual([2, `error: ADMIN_TOKEN: ${expected}`])
})

test('sluice --gateway says that ADMIN_TOKEN is not set', async () => {
  const { code, stderr } = await runInside(['usage', 'x', '--gateway', site.gateway.url.href])
  expect([code, stderr]).toEqual([2, expect.stringContaining('error: ADMIN_TOKEN is not set\n')])
})
