import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { CODES } from '../../src/command/check/finding.ts'
import { expectDocumented } from './documented.ts'
import { findFindings } from './findings-of.ts'
import { type RunOptions, runCommand, runInside } from './run-command.ts'

const FILES = globSync(join(import.meta.dirname, 'config/*.{toml,json,jsonc}')).toSorted()

async function makeDirectory(files: Readonly<Record<string, string>>): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-check-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text)
  return directory
}

/** Runs `sluice check` beside files of these names. */
async function check(
  files: Readonly<Record<string, string>>,
  args: readonly string[] = [],
  env: RunOptions['env'] = {},
) {
  return runInside(['check', ...args], { cwd: await makeDirectory(files), env })
}

const GOOD = '[vars]\nUPSTREAM_URL = "https://api.acme.test"\nRATE_LIMITS = "10/1s"\n'
const LOGIN = '[[vars.POLICIES]]\nname = "login"\nlimits = "5/1m"\nby = "ip"\nmatch = "POST /login"\n'

describe('a bad file is reported with its place', () => {
  test.each(FILES)('%s', async (path) => {
    const expected = [...(await readFile(path, 'utf8')).matchAll(/^(?:#|\/\/): (.*)$/gm)].map(([, line]) => line)
    expect(expected.length).toBeGreaterThan(0)
    expect(await findFindings(path)).toEqual(expected)
  })

  test('and there is one for each code', async () => {
    const texts = await Promise.all(FILES.map((path) => readFile(path, 'utf8')))
    const seen = new Set(texts.flatMap((text) => [...text.matchAll(/\[([a-z-]+)\] /g)].map(([, code]) => code)))
    expect(Object.keys(CODES).filter((code) => !seen.has(code))).toEqual([])
  })
})

test.each([
  [40, () => '/a', false],
  [41, () => '/a', true],
  [100, (at: number) => `/a, /b${at}`, true],
  [100, (at: number) => `/b${at}`, false],
])(
  '%d policies by parameters and cookies for one request are too many, or not: %s',
  async (count, findPath, isNoted) => {
    const policies = Array.from({ length: count }, (_, at) => {
      return { name: `p${at}`, limits: '1/1s', by: at % 2 ? `query:q${at}` : `cookie:c${at}`, match: findPath(at) }
    })
    const vars = { UPSTREAM_URL: 'https://api.acme.test', POLICIES: policies }
    const directory = await makeDirectory({ 'wrangler.json': JSON.stringify({ vars }) })
    const findings = await findFindings(join(directory, 'wrangler.json'))
    expect(findings.some((finding) => finding.includes('[many-readers]'))).toBe(isNoted)
  },
)

test.each(['stdout', 'stderr'] as const)(
  'sluice check ends with its own code though nobody reads its %s',
  async (unread) => {
    const cwd = await makeDirectory({ 'wrangler.toml': `${GOOD}ANONYMOUS = "allow"\n` })
    for (const [args, expected] of [
      [['check'], 1],
      [['check', '--nonsense'], 2],
    ] as const) {
      const child = spawn(process.execPath, [join(import.meta.dirname, '../../src/cli.ts'), ...args], { cwd })
      child[unread].destroy()
      child[unread === 'stdout' ? 'stderr' : 'stdout'].resume()
      expect(await once(child, 'close')).toEqual([expected, null])
    }
  },
)

test('sluice check reads a file with a byte order mark, and takes an empty name of an environment for none', async () => {
  const files = { 'wrangler.toml': `\ufeff${GOOD}` }
  expect((await check(files)).code).toBe(0)
  expect((await check({ 'wrangler.json': '\ufeff{"vars":{"UPSTREAM_URL":"https://api.acme.test"}}' })).code).toBe(0)
  expect((await check(files, ['--env', ''])).code).toBe(0)
  expect((await check(files, [], { CLOUDFLARE_ENV: '' })).code).toBe(0)
})

test('sluice check prints each finding as file:line:column, what to do, and a count', async () => {
  const cwd = await makeDirectory({ 'wrangler.toml': `${GOOD}ANONYMOUS = "allow"\nLEASES = "of"\n` })
  const { code, stdout, stderr } = await runCommand(['check'], { cwd })
  expect([code, stderr]).toEqual([1, ''])
  expect(stdout.split('\n')).toEqual([
    'wrangler.toml:4:13: error: ANONYMOUS: expected "ip" or "deny", got "allow" [refused]',
    'wrangler.toml:5:10: error: LEASES: expected "off", "auto" or an integer from 2 to 10000, got "of" [refused]',
    'wrangler.toml: 1 policy, 2 errors, 0 warnings',
    '',
  ])
})

test.each([
  ['algoritm = "quota"', 'Did you mean algorithm?'],
  ['limit = "5/1m"', 'Did you mean limits?'],
  ['ANONYMOUS = "deny"', 'ANONYMOUS is a variable: write it above'],
])('sluice check helps with %s in a policy', async (line, hint) => {
  expect((await check({ 'wrangler.toml': `${GOOD}${LOGIN}${line}\n` })).stdout).toContain(`  ${hint}`)
})

test('sluice check --json says the same in fields that are documented', async () => {
  const { code, stdout } = await check({ 'wrangler.toml': `${GOOD}STORE_TIMEOUT_MS = 60000\n` }, ['--json', '--strict'])
  expectDocumented('check', stdout)
  expect(code).toBe(1)
  expect(JSON.parse(stdout)).toMatchObject({
    ok: false,
    environment: null,
    findings: [{ level: 'warning', code: 'store-timeout', file: 'wrangler.toml', line: 4, column: 20 }],
  })
})

test('sluice check fails for warnings with --strict alone', async () => {
  const files = { 'wrangler.toml': GOOD.replace('acme.test', 'example.com') }
  expect((await check(files)).code).toBe(0)
  expect((await check(files, ['--strict'])).code).toBe(1)
})

test('sluice check takes it that whoever moves has a database, known to Cloudflare alone', async () => {
  const objects = '[[durable_objects.bindings]]\nname = "LIMITS"\nclass_name = "LimitObject"\n'
  const readCode = async (lines: string) => (await check({ 'wrangler.toml': `${GOOD}${lines}\n${objects}` })).code
  expect(await readCode('STORE = "redis"\nSTORE_MIRROR = "durable-object"')).toBe(0)
  expect(await readCode('STORE = "durable-object"\nSTORE_MIRROR = "redis"')).toBe(0)
  expect(await readCode('STORE_MIRROR = "durable-object"')).toBe(0)
  expect(await readCode('STORE_MIRROR = "redis"')).toBe(1)
})

test('sluice check says where a file is no TOML', async () => {
  const { code, stderr } = await check({ 'wrangler.toml': `${GOOD}MODE = shadow\n` })
  expect(code).toBe(2)
  expect(stderr).toMatch(/^error: wrangler\.toml:4:\d+: /)
})

test('sluice check says where a file is no JSON', async () => {
  const { code, stderr } = await check({ 'wrangler.jsonc': '{\n  // why\n  "vars": { "MODE": shadow }\n}\n' })
  expect([code, stderr.split('\n')[0]]).toEqual([2, 'error: wrangler.jsonc:3:21: invalid symbol'])
  expect((await check({ 'wrangler.json': '[]' })).stderr).toContain('error: wrangler.json:1:1: expected an object')
})

test.each([
  [[], {}, 'no wrangler.toml, wrangler.json or wrangler.jsonc here or above'],
  [['--config', 'other.toml'], {}, 'other.toml cannot be read (ENOENT)'],
  [['--env', 'production'], { 'wrangler.toml': GOOD }, 'wrangler.toml has no environment "production"'],
] as const)('sluice check %j refuses what is not there', async (args, files, message) => {
  const { code, stderr } = await check(files, args)
  expect([code, stderr.split('\n')[0]]).toEqual([2, `error: ${message}`])
})

test('sluice check goes by what is deployed, or with --dev by what `npm run dev` takes', async () => {
  const files = { 'wrangler.toml': GOOD, '.dev.vars': 'ANONYMOUS=deny\nMODE=shadows\n' }
  expect((await check(files, [], { RATE_LIMITS: 'never' })).code).toBe(0)
  const { code, stdout } = await check(files, ['--dev'], { RATE_LIMITS: 'never' })
  expect(code).toBe(1)
  expect(stdout).toMatch(/^\.dev\.vars:2:1: error: MODE: /m)
  expect(stdout).toMatch(/^RATE_LIMITS of the shell: error: RATE_LIMITS: /m)
})

test('sluice check --dev says nothing of what `npm run dev` replaces', async () => {
  const files = (lines: string, vars = '') => ({ 'wrangler.toml': `[vars]\n${lines}\n`, '.dev.vars': vars })
  const dev = async (...given: Parameters<typeof files>) => (await check(files(...given), ['--dev', '--strict'])).stdout
  const clean = 'wrangler.toml: 1 policy, 0 errors, 0 warnings\n'
  expect(await dev('UPSTREAM_URL = "https://api.example.com"')).toBe(clean)
  expect(await dev('UPSTREAM_URL = "not used"')).toBe(clean)
  expect(await dev('STORE = "redis"')).toBe(clean)
  // What it does not replace.
  expect(await dev('', 'UPSTREAM_URL=https://api.example.com')).toContain('[example-upstream]')
  expect(await dev('STORE = "redis"', 'UPSTASH_REDIS_REST_TOKEN=x')).toContain('UPSTASH_REDIS_REST_URL: expected')
})

test('sluice check takes days for what they are: some years have one more', async () => {
  const policy = '[[vars.POLICIES]]\nname = "plan"\nalgorithm = "quota"\nlimits = "1000/day, 365500/year"\n'
  const { stdout } = await check({ 'wrangler.toml': `${GOOD}${policy}` }, ['GET /', '-H', 'Authorization: Bearer x'])
  expect(stdout).toContain('2 policies, 0 errors, 0 warnings')
  expect(stdout).toContain('1000 per day, 365500 per year')
})

test('sluice check shows no secret', async () => {
  const secret = 'hunter2'
  const files = { 'wrangler.toml': `${GOOD}IDENTITY_SECRT = "${secret}"\n`, '.dev.vars': `IDENTITY_SECRET=${secret}\n` }
  const { code, stdout, stderr } = await check(files, ['POST /login', '-H', `Authorization: Bearer ${secret}`])
  expect(code).toBe(1)
  expect(stdout + stderr).not.toContain(secret)
})

test('sluice check says which policies a request meets, by what identity, at what cost, and why', async () => {
  const files = { 'wrangler.toml': `${GOOD}EXEMPT = "GET /health"\n${LOGIN}` }
  const args = ['POST', '/login', '-H', 'Authorization: Bearer x', '--ip', '203.0.113.7', '--json']
  const { stdout } = await check(files, args)
  expectDocumented('check', stdout)
  expect(JSON.parse(stdout).request).toMatchObject({
    method: 'POST',
    path: '/login',
    verdict: null,
    priority: 'default',
    policies: [
      {
        policy: 'default',
        applies: true,
        why: 'applies to every request',
        identity: 'token',
        cost: 1,
        limits: ['10 per 1s'],
      },
      { policy: 'login', applies: true, why: 'matches POST /login', identity: 'ip', cost: 1, limits: ['5 per 1m'] },
    ],
  })
})

test.each([
  ['GET /health', /^exempt: EXEMPT has "GET \/health"$/],
  ['POST /x%2F..%2Flogin', /^refused with 400: APIs differ/],
  ['/_sluice/health', /^answered by the gateway itself/],
] as const)('sluice check %j says that no policy applies', async (request, verdict) => {
  const files = { 'wrangler.toml': `${GOOD}EXEMPT = "GET /health"\n${LOGIN}` }
  expect(JSON.parse((await check(files, [request, '--json'])).stdout).request.verdict).toMatch(verdict)
})

test('sluice check says who lacks what a policy counts by', async () => {
  const files = { 'wrangler.toml': `${GOOD}ANONYMOUS = "deny"\n${LOGIN}` }
  const { stdout } = await check(files, ['POST /login'])
  expect(stdout).toContain('refused with 401 by policy "default": the caller lacks token')
})

test('sluice check counts callers without identity by address where a shadow policy denies them', async () => {
  const files = { 'wrangler.toml': `${GOOD}MODE = "shadow"\nANONYMOUS = "deny"\n${LOGIN}` }
  const identity = async (ip: string) =>
    JSON.parse((await check(files, ['GET /', '--ip', ip, '--json'])).stdout).request.policies[0]
  const [one, other] = [await identity('203.0.113.7'), await identity('203.0.113.8')]
  expect(one).toMatchObject({ policy: 'default', applies: true, identity: expect.stringMatching(/^ip /) })
  expect(other.key).not.toBe(one.key)
})

test('sluice check orders what it finds by file, then by line', async () => {
  const vars = 'MODE=shadows\n\nRATE_LIMITS=x\n'
  const { stdout } = await check({ 'wrangler.toml': `${GOOD}LEASES = "many"\n`, '.dev.vars': vars }, ['--dev'])
  const files = stdout.match(/^(?:\.dev\.vars|wrangler\.toml)(?=:)/gm) ?? []
  expect(new Set(files).size).toBe(2)
  expect(files).toEqual(files.toSorted())
})

test('sluice check says how long the penalty of a policy lasts', async () => {
  const files = { 'wrangler.toml': `${GOOD}${LOGIN}penalty = "10m"\npenalty_after = 5\n` }
  const json = await check(files, ['POST /login', '--json'])
  expectDocumented('check', json.stdout)
  const { policies } = JSON.parse(json.stdout).request
  expect(policies).toMatchObject([{ policy: 'default' }, { policy: 'login', penalty: '10m after 5 refusals' }])
  expect(policies[0]).not.toHaveProperty('penalty')
  expect((await check(files, ['POST /login'])).stdout).toContain('5 per 1m; penalty 10m after 5 refusals')
})
