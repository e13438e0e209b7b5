import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { beforeEach, describe, expect, test } from 'vitest'
import { main, type World } from '../../../src/command/main.ts'
import { startRedisServer } from '../../../tools/redis-server.ts'
import { startRestFront } from '../../../tools/rest-front.ts'
import { runInside } from '../../command/run-command.ts'
import { killAndResume } from '../../support/kill-and-resume.ts'
import { share } from '../../support/share.ts'
import { connectBytes, expiries, fill } from '../../support/upkeep.ts'

const TOKEN = 'planted-secret-upkeep-command'
const HOUR_MS = 3_600_000

const server = share(() => startRedisServer())
const redis = share(
  () => connectBytes(server.port),
  (client) => client.destroy(),
)
/** So far away that a run cannot end before it is killed. */
const front = share(() => startRestFront({ redisPort: server.port, token: TOKEN, delayMs: 20 }))
let stateFolder: string
let overRedis: readonly string[]
beforeEach(async () => {
  overRedis = ['--redis', `redis://127.0.0.1:${server.port}`]
  await redis.sendCommand(['FLUSHALL'])
  stateFolder = await mkdtemp(join(tmpdir(), 'sluice-upkeep-'))
  return () => rm(stateFolder, { recursive: true })
})

const env = () => ({ XDG_STATE_HOME: stateFolder })

describe('sluice expire', () => {
  test('killed and stopped in the middle, it goes on, leaves no key without a TTL, and touches none that had one', async () => {
    await fill(redis, 'flashMap_', 2_200)
    await fill(redis, 'other_', 100)
    const kept = Array.from({ length: 200 }, (_, i) => `flashMap_${i * 11}`)
    for (const [i, key] of kept.entries()) await redis.sendCommand(['PEXPIRE', key, `${HOUR_MS + i}`])
    const before = await expiries(redis, kept)

    // 150 pages of 20 ms and more.
    const args = ['--redis', front.url, '--match', 'flashMap_*', '--ttl', '24h', '--count', '15']
    const { ends, summary } = await killAndResume(args, stateFolder, { UPSTASH_REDIS_REST_TOKEN: TOKEN })

    expect(ends).toEqual(['SIGKILL', 130, 0])
    expect(summary).toMatchObject({ complete: true, share: 1, gone: 0, unnameable: 0 })
    // What was done between the last note and the kill is found done.
    expect(summary.set).toBeLessThanOrEqual(2_000)
    expect(await expiries(redis, kept)).toEqual(before)
    const all = Array.from({ length: 2_200 }, (_, i) => `flashMap_${i}`)
    expect((await expiries(redis, all)).filter((at) => at <= 0)).toEqual([])
    expect(await expiries(redis, ['other_1', 'other_99'])).toEqual([-1, -1])
    expect(await readdir(join(stateFolder, 'sluice'))).toEqual([])
  })

  test('reports what it would do, and what it has done', async () => {
    await fill(redis, 'a ', 30)
    await redis.sendCommand(['PEXPIRE', 'a 1', `${HOUR_MS}`])
    const args = ['expire', ...overRedis, '--match', 'a *', '--ttl', '5m']
    const sampled = await runInside([...args, '--sample'], { env: env() })
    const counted = await runInside([...args, '--dry-run', '--json'], { env: env() })
    expect(await expiries(redis, ['a 2'])).toEqual([-1])
    const done = await runInside([...args, '--yes'], { env: env() })

    expect(sampled.stdout).toContain('30 keys seen: 29 have none, and would be given 5m, 1 had a time to live, 0 gone')
    expect(sampled.stdout).toMatch(/e\.g\. "a \d+", /)
    expect(JSON.parse(counted.stdout)).toMatchObject({
      complete: true,
      dryRun: true,
      seen: 30,
      set: 29,
      had: 1,
      ttlMs: 300_000,
    })
    expect(done.stdout).toContain('30 keys seen: 29 given 5m, 1 had a time to live, 0 gone')
    expect([sampled, counted, done].map(({ code }) => code)).toEqual([0, 0, 0])
  })

  test('asks first, and changes everything only if it is confirmed twice', async () => {
    await fill(redis, 'a', 20)
    const args = ['expire', ...overRedis, '--ttl', '5m', '--match']
    for (const [match, error] of [
      ['*', '--match "*" matches every key; confirm with --yes'],
      ['a*', 'there is no terminal to ask'],
    ] as const) {
      const { code, stderr } = await runInside([...args, match], { env: env() })
      expect([code, stderr.split('\n')[0]]).toEqual([2, `error: ${error}`])
    }
    const refused = await answering('n\n', [...args, 'a*'])
    expect(refused.code).toBe(0)
    expect(refused.stderr).toMatch(/Give 5m to 20 keys of 127\.0\.0\.1:\d+, such as "a\d+", .*\? \[y\/N\]/)
    expect(refused.stderr).toContain('nothing was changed')
    expect(await expiries(redis, ['a1', 'a19'])).toEqual([-1, -1])
    expect((await answering('yes\n', [...args, 'a*'])).stdout).toContain('20 keys seen: 20 given 5m')
  })

  test('leaves out rules and histories of Sluice, of whichever prefix, and takes what only bears such a name', async () => {
    for (const prefix of ['sluice', 'edge.v2']) {
      const env = { KEY_PREFIX: prefix }
      expect((await runInside(['block', '--ip', '203.0.113.7', ...overRedis], { env })).code).toBe(0)
    }
    const documents = ['sluice:rules', 'sluice:audit', 'edge.v2:rules', 'edge.v2:audit']
    await redis.sendCommand(['SET', 'game:rules', 'x'])
    await redis.sendCommand(['HSET', 'chess:rules', 'version', '1'])
    const { stdout } = await runInside(['expire', ...overRedis, '--match', '*', '--ttl', '5m', '--yes', '--json'], {
      env: env(),
    })
    expect(JSON.parse(stdout)).toMatchObject({ seen: 6, set: 2, had: 4 })
    expect(await expiries(redis, documents)).toEqual([-1, -1, -1, -1])
  })

  test('says in one line that there is no server, and goes on later', async () => {
    const { code, stderr } = await runInside(
      ['expire', '--redis', 'redis://:planted-secret-pass@127.0.0.1:1', '--match', 'a', '--ttl', '1s', '--yes'],
      { env: env() },
    )
    expect(code).toBe(3)
    expect(stderr).toMatch(/^error: Redis at 127\.0\.0\.1:1 cannot be reached \(ECONNREFUSED\)\n/)
  })

  test('says that a token is wrong, and not which', async () => {
    const { code, stderr } = await runInside(['expire', '--redis', front.url, '--match', 'a', '--ttl', '1s', '--yes'], {
      env: { ...env(), UPSTASH_REDIS_REST_TOKEN: 'planted-secret-wrong' },
    })
    expect(code).toBe(3)
    expect(stderr).toContain('WRONGPASS')
    expect(stderr).not.toContain('planted')
  })
})

describe('sluice delete', () => {
  test('asks first, and removes everything only if it is confirmed twice', async () => {
    await fill(redis, 'a', 50)
    await fill(redis, 'b', 50)
    const results = []
    for (const args of [['*'], ['[a-z]*'], ['a*'], ['a*', '--dry-run'], ['a*', '--yes', '--json']]) {
      results.push(await runInside(['delete', ...overRedis, '--match', ...args], { env: env() }))
    }
    expect(results.map(({ code }) => code)).toEqual([2, 2, 2, 0, 0])
    expect(results.map(({ stderr }) => stderr.split('\n')[0])).toEqual([
      'error: --match "*" matches every key; confirm with --yes',
      'error: --match "[a-z]*" matches every key; confirm with --yes',
      'error: there is no terminal to ask',
      '',
      '',
    ])
    expect(results[3]?.stdout).toContain('50 keys would be removed')
    expect(JSON.parse(results[4]?.stdout ?? '')).toMatchObject({ complete: true, seen: 50, deleted: 50, gone: 0 })
    expect(await redis.sendCommand(['DBSIZE'])).toBe(50)
    expect((await answering('n\n', ['delete', ...overRedis, '--match', 'b*'])).stderr).toContain('nothing was changed')
    expect(await redis.sendCommand(['DBSIZE'])).toBe(50)
    const everything = await runInside(['delete', ...overRedis, '--match', '*', '--yes'], { env: env() })
    expect(everything.stdout).toContain('50 keys seen: 50 removed')
    expect(await redis.sendCommand(['DBSIZE'])).toBe(0)
  })

  test('shows some of what it would remove, and removes it if that is meant', async () => {
    await fill(redis, 'a b', 20)
    const { stdout, stderr } = await answering('yes\n', ['delete', ...overRedis, '--match', 'a*'])
    expect(stderr).toMatch(/Remove 20 keys of 127\.0\.0\.1:\d+, such as "a b\d+", .*\? \[y\/N\]/)
    expect(stdout).toContain('20 keys seen: 20 removed, 0 gone before')
    expect(await redis.sendCommand(['DBSIZE'])).toBe(0)
  })
})

/** The command on a terminal where somebody answers. */
async function answering(answer: string, args: readonly string[]) {
  const stdin = Object.assign(Readable.from([answer]), { isTTY: true })
  const [stdout, stderr] = [new PassThrough(), Object.assign(new PassThrough(), { isTTY: true })]
  const world = { stdin, stdout, stderr, env: env(), cwd: () => '/', exit: () => {}, on: () => {} }
  const code = await main(args, world as unknown as World)
  return { code, stdout: `${stdout.read() ?? ''}`, stderr: `${stderr.read() ?? ''}` }
}
