import { lstat, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectDocumented } from '../documented.ts'
import { runCommand, runInside } from '../run-command.ts'

/** Six requests of one caller within a second, and one of another. */
const COMMON = [
  ...Array.from({ length: 6 }, () => '198.18.0.1 - - [01/Jan/2026:01:00:00 +0100] "GET /things HTTP/1.1" 200 5'),
  '198.18.0.2 - - [01/Jan/2026:01:00:01 +0100] "POST /login HTTP/1.1" 401 5 "-" "curl/8.5.0"',
]
const ENV = { RATE_LIMITS: '5/1m' }

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-simulate-'))
})
afterAll(() => rm(folder, { recursive: true }))

/** What `sluice simulate … --json` prints. */
async function simulated(args: readonly string[], options: Parameters<typeof runInside>[1] = {}) {
  const { code, stdout } = await runInside(['simulate', ...args, '--json'], { env: ENV, cwd: folder, ...options })
  return { code, ...JSON.parse(stdout) }
}

test('sluice simulate reads Common and Combined logs, and reports who was refused', async () => {
  await writeFile(join(folder, 'access.log'), `${COMMON.join('\n')}\n`)
  const result = await simulated([join(folder, 'access.log'), '--show-callers'])
  expect(result).toMatchObject({
    code: 0,
    complete: true,
    requests: 7,
    from: '2026-01-01T00:00:00.000Z',
    to: '2026-01-01T00:00:01.000Z',
    lines: 7,
    unreadable: 0,
    firstUnreadable: null,
    notes: [expect.stringContaining('whole seconds')],
  })
  expect(result.results).toEqual([
    {
      limits: null,
      algorithm: null,
      leases: null,
      admitted: 6,
      refused: 1,
      rejected: 0,
      policies: [{ policy: 'default', mode: 'enforce', requests: 7, admitted: 6, refused: 1 }],
      callers: [{ policy: 'default', digest: expect.any(String), caller: '198.18.0.1', refused: 1 }],
      uncertainty: 0,
      wait: { medianMs: 60_000, p95Ms: 60_000, longestMs: 60_000 },
      // Each first request also sets a time to live, and the refusal writes nothing.
      calls: 7,
      commands: 6 * 4 + 2 + 3,
      dollars: 29 * 0.000002,
      bucketMs: 100,
      buckets: expect.any(Array),
    },
  ])
  const [first, ...others] = result.results[0].buckets
  const [busy, quiet] = [
    { admitted: 5, refused: 1 },
    { admitted: 1, refused: 0 },
  ]
  expect(first).toEqual({ from: '2026-01-01T00:00:00.000Z', ...busy, policies: [busy] })
  expect(others.at(-1)).toEqual({ from: '2026-01-01T00:00:01.000Z', ...quiet, policies: [quiet] })
})

test('a log that is packed, in several files or on standard input makes no difference', async () => {
  const [one, two] = [join(folder, 'one.log.gz'), join(folder, 'two.log')]
  await writeFile(one, gzipSync(COMMON.slice(0, 3).join('\n')))
  await writeFile(two, COMMON.slice(3).join('\r\n'))
  const fromFiles = await simulated([one, two])
  const fromInput = await simulated(['-'], { input: COMMON.join('\n') })
  expect(fromFiles.results).toEqual(fromInput.results)
  expect(fromFiles.requests).toBe(7)
})

test.each([
  [
    'nginx',
    {
      time_iso8601: '2026-01-01T00:00:00+00:00',
      remote_addr: '198.18.0.1',
      request: 'GET /things HTTP/1.1',
      status: '200',
    },
  ],
  ['nginx, msec', { msec: '1767225600.000', remote_addr: '198.18.0.1', request_method: 'GET', request_uri: '/things' }],
  [
    'Logpush',
    {
      EdgeStartTimestamp: 1_767_225_600_000_000_000,
      ClientIP: '198.18.0.1',
      ClientRequestMethod: 'GET',
      ClientRequestURI: '/things',
    },
  ],
])('lines of JSON are read as %s writes them', async (_, row) => {
  const input = Array.from({ length: 6 }, () => JSON.stringify(row)).join('\n')
  const { from, results } = await simulated(['-', '--show-callers'], { input })
  expect(from).toBe('2026-01-01T00:00:00.000Z')
  expect(results[0]).toMatchObject({ admitted: 5, refused: 1, callers: [{ caller: '198.18.0.1' }] })
})

test('--fields says where JSON has what, header fields and members of members among it', async () => {
  const env = { POLICIES: JSON.stringify([{ name: 'keys', limits: '2/1m', by: 'header:x-key' }]) }
  const rows = ['a', 'a', 'a', 'b'].map((key) => ({
    at: 1_767_225_600_123,
    http: { path: '/things', verb: 'PUT' },
    key,
  }))
  const input = rows.map((row) => JSON.stringify(row)).join('\n')
  const args = ['-', '--show-callers', '--fields', 'time=at,method=http.verb,path=http.path,header.X-Key=key']
  const { results } = await simulated(args, { env, input })
  expect(results[0]).toMatchObject({ admitted: 3, refused: 1, callers: [{ policy: 'keys', caller: 'a', refused: 1 }] })
})

test('lines that cannot be read are counted, and the first is shown', async () => {
  const input = [COMMON[0], '', 'what is this', '{"time": 5', COMMON[1]].join('\n')
  expect(await simulated(['-'], { input })).toMatchObject({
    requests: 2,
    lines: 4,
    unreadable: 2,
    firstUnreadable: { file: '-', line: 3, text: 'what is this' },
  })
  const nothing = await runInside(['simulate', '-'], { env: ENV, cwd: folder, input: 'what is this' })
  expect(nothing.code).toBe(2)
  expect(nothing.stderr).toContain('no line could be read; the first is line 1 of standard input: "what is this"')
})

test('a shadow policy reports whom it would refuse, and a log that is not in order of time is noticed', async () => {
  const env = { ...ENV, MODE: 'shadow' }
  const { notes, results } = await simulated(['-'], { env, input: [...COMMON].reverse().join('\n') })
  expect(notes).not.toContainEqual(expect.stringContaining('in order of time'))
  expect(results[0]).toMatchObject({
    admitted: 7,
    refused: 0,
    policies: [{ mode: 'shadow', refused: 1 }],
    callers: [{ refused: 1 }],
  })
  const early = COMMON[0]?.replace('01:00:00', '00:58:00')
  const disordered = await simulated(['-'], { input: [...COMMON, early].join('\n') })
  expect(disordered.notes).toContainEqual(expect.stringContaining('1 request over a second earlier'))
})

test('an address is read with a port, in brackets, or before those of proxies; what is none is not counted as one', async () => {
  const POLICIES = JSON.stringify([{ name: 'addresses', limits: '1/1m', by: 'ip' }])
  const ips = ['192.0.2.1:4711', '[2001:db8:1::1]:80', '198.51.100.7, 10.0.0.1', '[2001:db8:2::1]', '192.0.2.2']
  const lines = ips.map((ip) => JSON.stringify({ time: 1_767_225_600, path: '/', ip })).join('\n')
  const env = { RATE_LIMITS: '100/1m', POLICIES }
  expect((await simulated(['-'], { env, input: lines })).results[0].admitted).toBe(5)
  const hosts = JSON.stringify({ time: 1_767_225_600, path: '/', ip: 'host.example' })
  const { notes } = await simulated(['-'], { env, input: hosts })
  expect(notes).toContain('no line has an address, which policies count by')
})

test('what no line shows, though policies count by it, is noticed', async () => {
  const POLICIES = JSON.stringify([
    { name: 'keys', limits: '5/1m', by: 'header:x-api-key', anonymous: 'deny' },
    { name: 'addresses', limits: '5/1m', by: 'ip' },
  ])
  const input = COMMON.join('\n')
  const { notes } = await simulated(['-'], { env: { POLICIES }, input })
  expect(notes).toContain('no line has the header x-api-key, which policies count by')
  const rows = [{ time: 1_767_225_600, method: 'GET', path: '/', address: '198.18.0.1', key: 'a' }]
  const lines = rows.map((row) => JSON.stringify(row)).join('\n')
  const wrong = await simulated(['-', '--fields', 'ip=client,header.x-api-key=key'], {
    env: { POLICIES },
    input: lines,
  })
  expect(wrong.notes).toContain('no line has an address, which policies count by')
  const right = await simulated(['-', '--fields', 'ip=address,header.x-api-key=key'], {
    env: { POLICIES },
    input: lines,
  })
  expect(right.notes).not.toContainEqual(expect.stringContaining('no line has'))
})

test('failures that a log reports count for policies of failures', async () => {
  const env = {
    POLICIES: JSON.stringify([{ name: 'guesses', limits: '2/1m', by: 'ip', counts: 'failures', failures: [401] }]),
  }
  const line = (status: number) => `198.18.0.1 - - [01/Jan/2026:01:00:00 +0000] "POST /login HTTP/1.1" ${status} 5`
  const of = async (statuses: readonly number[]) =>
    (await simulated(['-'], { env, input: statuses.map(line).join('\n') })).results[0]
  expect(await of([401, 401, 401])).toMatchObject({ admitted: 2, refused: 1 })
  expect(await of([200, 401, 200, 200])).toMatchObject({ admitted: 4, refused: 0 })
})

test('costs that a log reports are charged after the request: bytes, or what --fields names', async () => {
  const policy = { name: 'costs', limits: '100/1m', by: 'ip' }
  const env = (actual_cost: unknown, more = {}) => ({
    RATE_LIMITS: 'off',
    POLICIES: JSON.stringify([{ ...policy, actual_cost, ...more }]),
  })
  const common = (bytes: number) => `198.18.0.1 - - [01/Jan/2026:01:00:00 +0000] "GET /a HTTP/1.1" 200 ${bytes}`
  const ofCommon = await simulated(['-'], { env: env('bytes'), input: [60, 50, 1].map(common).join('\n') })
  expect(ofCommon.results[0]).toMatchObject({ admitted: 2, refused: 1 })
  const json = (used: unknown) =>
    JSON.stringify({ time: 1_767_229_200_000, path: '/a', ip: '198.18.0.1', usage: { used } })
  const input = [20, '30', '-', 1, 1].map(json).join('\n')
  const actual = { 'json:/usage/total_tokens': 2 }
  const fields = ['-', '--fields', 'cost.json:/usage/total_tokens=usage.used']
  expect((await simulated(fields, { env: env(actual, { untold: 1 }), input })).results[0]).toMatchObject({
    admitted: 2,
    refused: 3,
  })
  const { notes, results } = await simulated(['-'], { env: env(actual, { untold: 1 }), input })
  expect(results[0]).toMatchObject({ admitted: 5 })
  expect(notes).toContainEqual(expect.stringContaining('no line has the cost json:/usage/total_tokens'))
})

test('--limits go side by side, each in place of RATE_LIMITS', async () => {
  const args = ['-', '--limits', '2/1m', '--limits', '100/1m']
  const { results } = await simulated(args, { input: COMMON.join('\n') })
  expect(results).toMatchObject([
    { limits: '2/1m', admitted: 3, refused: 4 },
    { limits: '100/1m', admitted: 7, refused: 0 },
  ])
  const { stdout } = await runInside(['simulate', ...args], { env: ENV, cwd: folder, input: COMMON.join('\n') })
  expect(stdout).toMatch(/^limits +admitted +refused.*\n2\/1m +3 +4 +57\.1%/m)
  expect(stdout).not.toContain('198.18.0.1')
})

test('--algorithm goes side by side, of the policy that limits make, with a bucket for each of them', async () => {
  const args = ['--limits', '2/1s, 5/1m', '--algorithm', 'sliding-window', '--algorithm', 'token-bucket']
  const { results } = await simulated(['-', ...args], { input: COMMON.join('\n') })
  expect(results).toMatchObject([
    { limits: '2/1s, 5/1m', algorithm: 'sliding-window', admitted: 3, policies: [{ policy: 'default' }] },
    { algorithm: 'token-bucket', admitted: 3, policies: [{ policy: 'default-1s' }, { policy: 'default-1m' }] },
  ])
  const { code, stderr } = await runInside(['simulate', '-', '--algorithm', 'quota'], {
    env: { RATE_LIMITS: 'off', POLICIES: JSON.stringify([{ name: 'one', limits: '1/1s' }]) },
  })
  expect(stderr).toContain('there is no policy of RATE_LIMITS')
  expect(code).toBe(2)
})

test('--leases goes side by side, as one isolate would take them', async () => {
  const args = [
    '--traffic',
    '2 callers, 100/s each, for 20s',
    '--limits',
    '500/1s',
    '--leases',
    'off',
    '--leases',
    'auto',
  ]
  const { notes, results } = await simulated(args)
  const [off, auto] = results
  expect(notes).toContainEqual(expect.stringContaining('a single isolate'))
  expect(off).toMatchObject({ leases: 'off', refused: 0, calls: off.admitted })
  expect(auto).toMatchObject({ leases: 'auto', refused: 0, admitted: off.admitted })
  expect(auto.calls).toBeLessThan(off.calls / 3)
  expect(auto.commands).toBeLessThan(off.commands / 3)
  // An isolate knows whom it has refused.
  const flood = await simulated(['--traffic', '1 caller, 100/s each, for 20s', '--limits', '1/1s', '--leases', 'off'])
  expect(flood.results[0].calls).toBeLessThan(flood.requests / 10)
  const { stdout } = await runInside(['simulate', ...args])
  expect(stdout).toMatch(/^limits +leases +admitted .* calls +commands +dollars$/m)
  expect(stdout).toMatch(/^500\/1s +auto /m)
})

test('a refusal that an isolate remembers is that of its policy', async () => {
  const env = { RATE_LIMITS: '1000/1m', POLICIES: JSON.stringify([{ name: 'addresses', limits: '2/1m', by: 'ip' }]) }
  const input = COMMON.slice(0, 6).join('\n')
  const callers = async (args: readonly string[]) => (await simulated(['-', ...args], { env, input })).results[0]
  const requested = await callers([])
  const { calls, policies, callers: refused } = await callers(['--leases', 'off'])
  expect(requested.calls).toBe(6)
  expect(calls).toBe(3)
  expect(policies).toEqual(requested.policies)
  expect(refused).toEqual(requested.callers)
})

test('--out writes a page that holds all it needs, and lets nobody write into it', async () => {
  const hostile = `</script><script>alert("&")</script><!--\x1b\x9b\u202e`
  const row = { time: 1_767_225_600_000, ip: '198.18.0.1', path: '/', token: hostile }
  const input = Array.from({ length: 7 }, () => JSON.stringify(row)).join('\n')
  const args = ['-', '--limits', '5/1m', '--limits', '6/1m', '--show-callers', '--fields', 'token=token']
  const { code, out, notes, results } = await simulated([...args, '--out', 'drawn.html'], { input })
  expect([code, out]).toEqual([0, 'drawn.html'])
  const page = await readFile(join(folder, 'drawn.html'), 'utf8')
  expect(page).toContain('<html lang="en"')
  expect(page).toContain('prefers-color-scheme: dark')
  expect(page).toContain(`default-src 'none'`)
  expect(page).not.toMatch(/(?:src|href)=|url\(|@import/)
  expect(page).not.toMatch(/<script|[^\P{Cc}\n]|\p{Bidi_Control}/u)
  const lines = ['7 requests from 2026-01-01T00:00:00.000Z to 2026-01-01T00:00:00.000Z', ...notes]
  expect(page).toContain(`<ul>${lines.map((line) => `<li>${line}</li>`).join('')}</ul>`)
  expect(
    page.match(/<td>&lt;\/script&gt;&lt;script&gt;alert\(&quot;&amp;&quot;\)&lt;\/script&gt;&lt;!--\ufffd+</g),
  ).toHaveLength(2)
  for (const { buckets } of results) {
    for (const kind of ['admitted', 'refused']) {
      expect(page).toContain(`<title>${buckets[0].from}: ${buckets[0][kind]} ${kind}</title>`)
    }
  }
  expect(results[0].callers[0].caller).toBe(hostile)
})

test('--out replaces nothing that is there, be it a file or a link to one, unless --force says so', async () => {
  const other = join(folder, 'other.html')
  const run = (...args: string[]) =>
    runInside(['simulate', '-', '--out', ...args], { env: ENV, cwd: folder, input: COMMON.join('\n') })
  await writeFile(other, 'mine')
  await symlink(other, join(folder, 'link.html'))
  await symlink(join(folder, 'not-yet.html'), join(folder, 'dangling.html'))
  for (const name of ['other.html', 'link.html', 'dangling.html']) {
    const { code, stderr } = await run(name)
    expect([code, stderr]).toEqual([2, expect.stringContaining(`--out: ${name} is there already`)])
  }
  expect((await run('link.html', '--force')).code).toBe(0)
  expect((await lstat(join(folder, 'link.html'))).isFile()).toBe(true)
  expect(await readFile(other, 'utf8')).toBe('mine')
  expect((await run('other.html', '--force')).code).toBe(0)
  expect(await readFile(other, 'utf8')).toContain('<!doctype html>')
  await expect(lstat(join(folder, 'not-yet.html'))).rejects.toThrow('ENOENT')
})

test('--show-callers shows a caller whose token writes escapes, and lets it write none', async () => {
  const token = '\x1b[2J\x9b31m\u202etxt\nroot refused 0'
  const row = JSON.stringify({ time: 1_767_225_600_000, ip: '198.18.0.1', path: '/', token })
  const args = ['simulate', '-', '--limits', '1/1m', '--show-callers', '--fields', 'token=token']
  const { stdout } = await runInside(args, { env: ENV, cwd: folder, input: `${row}\n${row}\n\x1b[2J\x9b` })
  expect(stdout).toContain('default  \ufffd[2J\ufffd31m\ufffdtxt\ufffdroot refused 0')
  expect(stdout).not.toMatch(/[^\P{Cc}\n]|\u202e/u)
})

test('--traffic describes it in words: the same for the same seed, about as much as it says', async () => {
  const args = ['--traffic', '50 callers, 3/s each, bursts of 20 every minute, for 2m', '--limits', '20/1s']
  const { seconds: _, requestsPerSecond: _rate, ...once } = await simulated(args)
  const { seconds: _again, requestsPerSecond: _rateAgain, ...again } = await simulated(args)
  expect(again).toEqual(once)
  expect((await simulated([...args, '--seed', '2'])).requests).not.toBe(once.requests)
  // 18,000 at random, with a standard deviation of 134, and 2,000 in bursts.
  expect(Math.abs(once.requests - 20_000)).toBeLessThan(1_000)
  // Nobody sends more than 20 a second but around a burst.
  expect(once.results[0].refused).toBeGreaterThan(0)
  expect(once.results[0].refused).toBeLessThan(2_000)
})

test('policies that a log says too little for are named', async () => {
  const POLICIES = JSON.stringify([
    { name: 'slots', algorithm: 'concurrency', limits: '3' },
    { name: 'names', limits: '5/1m', by: 'form:name', anonymous: 'skip' },
  ])
  const { notes } = await simulated(['--traffic', '1 caller, 1/s each'], { env: { ...ENV, POLICIES, LEASES: 'auto' } })
  expect(notes).toEqual([
    expect.stringContaining('"slots" is left out'),
    expect.stringContaining('"names" counts by what logs do not hold'),
    expect.stringContaining('LEASES'),
  ])
})

test.each([
  [[], 'expected either logs or --traffic'],
  [['-', '--traffic', '1 caller, 1/s each'], 'expected either logs or --traffic'],
  [
    ['-', '--limits', '10 per second'],
    '--limits: expected limits such as "10/1s, 120/1m", got "10 per second": "10 per second" lacks a window',
  ],
  [['-', '--out', 'drawn.svg'], '--out: expected a name that ends in .html, got "drawn.svg"'],
  [['-', '--out', 'nowhere/drawn.html'], '--out: there is no folder '],
  [['-', '--algorithm', 'concurrency'], '--algorithm: expected one of sliding-window, '],
  [['-', '--leases', '1'], '--leases: expected "off", "auto" or an integer from 2 to 10000, got "1"'],
  [['-', ...Array.from({ length: 25 }, (_, n) => ['--limits', `${n + 1}/1s`]).flat()], 'at most 24 combinations'],
  [['-', '--fields', 'when=at'], '--fields: expected pairs such as'],
  [['--traffic', 'many callers'], '--traffic: expected parts such as'],
  [['--traffic', '5 callers'], '--traffic: expected parts such as'],
  [['--traffic', '1 caller, 1/s each', '--seed', 'x'], '--seed: expected an integer'],
  [['no-such.log'], 'no-such.log cannot be read (ENOENT)'],
  [['bad.gz'], 'bad.gz cannot be read (Z_DATA_ERROR)'],
])('sluice simulate %j is misuse', async (args, message) => {
  await writeFile(join(folder, 'bad.gz'), 'not packed')
  const files = args.map((arg) => (/\.(?:gz|log)$/.test(arg) ? join(folder, arg) : arg))
  const { code, stderr } = await runInside(['simulate', ...files], { env: ENV, cwd: folder })
  expect(stderr).toContain(message)
  expect(code).toBe(2)
})

test('every field of --json is documented, and the command ends well as a process', async () => {
  await writeFile(join(folder, 'odd.log'), `${COMMON.join('\n')}\nodd\n`)
  const args = ['simulate', join(folder, 'odd.log'), '--json', '--show-callers']
  const { code, stdout } = await runCommand(args, { env: { ...ENV, LEASES: 'auto' }, cwd: folder })
  expect(code).toBe(0)
  expectDocumented('simulate', stdout)
})
