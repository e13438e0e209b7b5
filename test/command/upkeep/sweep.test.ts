import fc from 'fast-check'
import { beforeEach, describe, expect, test } from 'vitest'
import type { Connection } from '../../../src/command/redis/connection.ts'
import {
  countBare,
  countKeys,
  deleteKeys,
  expire,
  findShareOfTable,
  scan,
} from '../../../src/command/upkeep/database.ts'
import { type SweepOptions, sweep } from '../../../src/command/upkeep/sweep.ts'
import { findFreePort } from '../../../tools/free-port.ts'
import { startRedisServer } from '../../../tools/redis-server.ts'
import { startRestFront } from '../../../tools/rest-front.ts'
import { expectProperty } from '../../support/property.ts'
import { share } from '../../support/share.ts'
import { connectBytes, expiries, fill, openDatabase, withScan } from '../../support/upkeep.ts'

const HOUR_MS = 3_600_000

const server = share(() => startRedisServer({ args: ['--enable-debug-command', 'yes'] }))
const redis = share(
  () => connectBytes(server.port),
  (client) => client.destroy(),
)
const front = share(() => startRestFront({ redisPort: server.port, token: 'planted-secret-upkeep' }))
const close = (connection: Connection) => connection.close()
const overRedis = share(() => openDatabase(`redis://127.0.0.1:${server.port}`), close)
const overRest = share(() => openDatabase(front.url, front.token), close)
beforeEach(async () => {
  await redis.sendCommand(['FLUSHALL'])
  await redis.sendCommand(['CONFIG', 'RESETSTAT'])
})

/** Commands that were run, in scripts as well. */
async function commandsRun(): Promise<string[]> {
  const info = String(await redis.sendCommand(['INFO', 'commandstats']))
  return [...info.matchAll(/^cmdstat_([^:]+):/gm)].map(([, name]) => name as string)
}

describe.each([
  ['redis://', () => overRedis, fc.uint8Array({ minLength: 0, maxLength: 20 }).map((bytes) => Buffer.from(bytes))],
  // Bytes that are no text cannot be named over REST.
  [
    'REST',
    () => overRest,
    fc
      .string({
        unit: fc.oneof(
          fc.constantFrom(' ', '\n', '"', "'", '*', '[', '\\', '{', '\0'),
          fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
        ),
        maxLength: 20,
      })
      .map((text) => Buffer.from(text.replaceAll('\ufffd', ''))),
  ],
] as const)('over %s', (_name, connection, names) => {
  test('sweep() gives a TTL to each key that matches and has none, and touches no other', () => {
    const keys = fc.uniqueArray(
      fc.record({
        name: fc
          .tuple(fc.constantFrom('flashMap_', 'other '), names)
          .map(([start, rest]) => Buffer.concat([Buffer.from(start), rest])),
        ttlMs: fc.option(fc.integer({ min: HOUR_MS, max: 10 * HOUR_MS }), { nil: undefined }),
      }),
      { selector: ({ name }) => name.toString('hex'), maxLength: 60 },
    )
    const property = fc.asyncProperty(keys, fc.integer({ min: 1, max: 50 }), async (rows, count) => {
      await redis.sendCommand(['FLUSHALL'])
      for (const { name, ttlMs } of rows) {
        await redis.sendCommand(['SET', name, 'x', ...(ttlMs === undefined ? [] : ['PX', `${ttlMs}`])])
      }
      const all = rows.map(({ name }) => name)
      const before = await expiries(redis, all)
      const options = { connection: connection(), match: 'flashMap_*', count }

      const counted = await sweep({ ...options, job: countBare })
      expect(await expiries(redis, all)).toEqual(before)
      const { tally, isComplete } = await sweep({ ...options, job: expire(HOUR_MS) })
      const after = await expiries(redis, all)

      const matches = rows.map(({ name }) => name.toString('latin1').startsWith('flashMap_'))
      const bare = rows.map(({ ttlMs }, i) => ttlMs === undefined && matches[i])
      expect(isComplete).toBe(true)
      expect(after.map((at, i) => (bare[i] ? at > 0 : at === before[i]))).toEqual(rows.map(() => true))
      expect([tally.changed, tally.gone, tally.unnameable]).toEqual([bare.filter(Boolean).length, 0, 0])
      expect(tally.seen).toBeGreaterThanOrEqual(matches.filter(Boolean).length)
      expect(counted.tally.changed).toBeGreaterThanOrEqual(tally.changed)
    })
    return expectProperty(property, 40)
  })

  test('sweep() removes what matches, and nothing else', async () => {
    await fill(redis, 'flashMap_', 1_000)
    await fill(redis, 'other_', 1_000)
    const { tally } = await sweep({ connection: connection(), job: deleteKeys, match: 'flashMap_*', count: 100 })
    expect(tally).toMatchObject({ changed: 1_000, kept: 0, unnameable: 0 })
    expect(await countKeys(connection())).toBe(1_000)
    expect(await commandsRun()).not.toContain('del')
  })

  test('sweep() reports keys that went between SCAN and the script, and makes none', async () => {
    await fill(redis, 'a', 500)
    let removed = 0
    const vanishing = withScan(connection(), async (scan) => {
      const reply = (await scan()) as [string, string[]]
      for (const key of reply[1].filter((_, i) => i % 3 === 0)) removed += Number(await redis.sendCommand(['DEL', key]))
      return reply
    })
    const { tally } = await sweep({ connection: vanishing, job: expire(HOUR_MS), match: 'a*', count: 50 })
    expect(tally.gone).toBe(removed)
    expect(tally.changed).toBe(500 - removed)
    expect(await countKeys(connection())).toBe(500 - removed)
  })

  test('sweep() misses no key while thousands are made, and the table grows', async () => {
    await fill(redis, 'old', 3_000)
    let made = 0
    const growing = withScan(connection(), async (scan) => {
      if (made < 12_000) await fill(redis, 'new', 1_000, made)
      made += 1_000
      return scan()
    })
    const { isComplete } = await sweep({ connection: growing, job: expire(HOUR_MS), match: '*', count: 300 })
    expect(isComplete).toBe(true)
    const old = Array.from({ length: 3_000 }, (_, i) => `old${i}`)
    expect((await expiries(redis, old)).filter((at) => at <= 0)).toEqual([])
  })

  test('sweep() goes on where it was stopped, however often, and misses no key', () => {
    const property = fc.asyncProperty(
      fc.array(fc.integer({ min: 1, max: 12 }), { maxLength: 6 }),
      fc.integer({ min: 5, max: 60 }),
      async (stops, count) => {
        await redis.sendCommand(['FLUSHALL'])
        await fill(redis, 'a', 700)
        await redis.sendCommand(['PEXPIRE', 'a7', `${5 * HOUR_MS}`])
        const [expiry] = await expiries(redis, ['a7'])
        const job = expire(HOUR_MS)
        let from: SweepOptions['from']
        let changed = 0
        for (const after of [...stops, Number.POSITIVE_INFINITY]) {
          const stopping = new AbortController()
          let reported = 0
          const summary = await sweep({
            ...{ connection: connection(), job, match: 'a*', count, from, signal: stopping.signal },
            onProgress: () => void (++reported >= after && stopping.abort()),
          })
          from = { cursor: summary.cursor, tally: summary.tally }
          changed = summary.tally.changed
          if (summary.isComplete) break
        }
        const keys = Array.from({ length: 700 }, (_, i) => `a${i}`)
        expect((await expiries(redis, keys)).filter((at) => at <= 0)).toEqual([])
        expect(await expiries(redis, ['a7'])).toEqual([expiry])
        expect(changed).toBe(699)
      },
    )
    return expectProperty(property, 24)
  })

  test('sweep() sends nothing that holds up a server, or writes more than it must', async () => {
    await fill(redis, 'a', 500)
    await redis.sendCommand(['CONFIG', 'RESETSTAT'])
    await sweep({ connection: connection(), job: countBare, match: '*', count: 100 })
    const reading = await commandsRun()
    await sweep({ connection: connection(), job: expire(HOUR_MS), match: '*', count: 100 })
    const ours = ['config|resetstat', 'ping', 'info', 'dbsize', 'scan', 'pttl', 'time', 'evalsha_ro', 'eval_ro']
    expect(ours).toEqual(expect.arrayContaining(reading))
    expect([...ours, 'evalsha', 'eval', 'pexpire']).toEqual(expect.arrayContaining(await commandsRun()))
  })
})

describe('over REST', () => {
  test('sweep() leaves keys alone that it cannot name, and reports how many', async () => {
    await redis.sendCommand(['SET', Buffer.from([97, 0xff]), 'x'])
    // What the name above becomes in JSON.
    await redis.sendCommand(['SET', 'a\ufffd', 'x'])
    await redis.sendCommand(['SET', 'ab', 'x'])
    const { tally } = await sweep({ connection: overRest, job: expire(HOUR_MS), match: 'a*' })
    expect(tally).toMatchObject({ seen: 3, changed: 1, unnameable: 2 })
    expect((await expiries(redis, [Buffer.from([97, 0xff]), 'a\ufffd'])).map(Number)).toEqual([-1, -1])
  })

  test('sweep() sends scripts to a server that knows no lines of flags', async () => {
    const plain = await startRestFront({ redisPort: server.port, token: front.token, stripShebang: false })
    await fill(redis, 'a', 300)
    const connection = await openDatabase(plain.url, plain.token)
    expect((await sweep({ connection, job: countBare, match: '*' })).tally.changed).toBe(300)
    expect((await sweep({ connection, job: expire(HOUR_MS), match: '*' })).tally.changed).toBe(300)
    await plain.stop()
  })

  test('sweep() waits until a server that went away is back', { tags: ['slow'] }, async () => {
    const port = await findFreePort()
    let gone = await startRestFront({ redisPort: server.port, token: front.token, port })
    await fill(redis, 'a', 3_000)
    const connection = await openDatabase(gone.url, gone.token)
    let reason: string | undefined
    let back: Promise<unknown> | undefined
    const { tally, isComplete, pauses } = await sweep({
      ...{ connection, job: expire(HOUR_MS), match: '*', count: 100 },
      onProgress({ share, waitsFor }) {
        if (share > 0.3) {
          back ??= gone.stop().then(async () => {
            await expect.poll(() => reason).toBeDefined()
            gone = await startRestFront({ redisPort: server.port, token: front.token, port })
          })
        }
        reason ??= waitsFor
      },
    })
    await back
    expect(reason).toBe('Upstash could not be reached, or its answer could not be read')
    expect([isComplete, tally.changed <= 3_000]).toEqual([true, true])
    expect(pauses).toBeGreaterThan(0)
    const keys = Array.from({ length: 3_000 }, (_, i) => `a${i}`)
    expect((await expiries(redis, keys)).filter((at) => at <= 0)).toEqual([])
    await gone.stop()
  })

  test('a wrong token opens nothing, and is not shown', async () => {
    const failure = openDatabase(front.url, 'planted-secret-wrong')
    await expect(failure).rejects.toThrow('WRONGPASS')
    await expect(failure).rejects.not.toThrow('planted')
  })

  test('sweep() stops at a token that is no longer right, and does not show it', async () => {
    const port = await findFreePort()
    const before = await startRestFront({ redisPort: server.port, token: 'planted-secret-old', port })
    const connection = await openDatabase(before.url, before.token)
    await before.stop()
    const after = await startRestFront({ redisPort: server.port, token: front.token, port })
    const failure = sweep({ connection, job: countBare, match: '*' })
    await expect(failure).rejects.toThrow('WRONGPASS')
    await expect(failure).rejects.not.toThrow('planted')
    await after.stop()
  })
})

describe('over redis://', () => {
  test('sweep() goes on after its connections were cut', { tags: ['slow'] }, async () => {
    await fill(redis, 'a', 5_000)
    let cuts = 0
    const { tally, isComplete } = await sweep({
      ...{ connection: overRedis, job: expire(HOUR_MS), match: '*', count: 100 },
      onProgress({ share }) {
        if (share < 0.2 * (cuts + 1) || cuts >= 3) return
        cuts++
        void redis.sendCommand(['CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'])
      },
    })
    expect([isComplete, cuts]).toEqual([true, 3])
    // What ran and was not answered is found done.
    expect(tally.changed).toBeLessThanOrEqual(5_000)
    const keys = Array.from({ length: 5_000 }, (_, i) => `a${i}`)
    expect((await expiries(redis, keys)).filter((at) => at <= 0)).toEqual([])
  })

  test('sweep() gives a server up that stays away for a minute', { tags: ['slow'] }, async () => {
    let nowMs = 0
    const other = await startRedisServer()
    const connection = await openDatabase(`redis://127.0.0.1:${other.port}`)
    await other.stop()
    const wait = async (ms: number) => {
      nowMs += ms
    }
    const failure = sweep({ connection, job: countBare, match: '*', wait, nowMs: () => nowMs })
    await expect(failure).rejects.toThrow('the connection to Redis was lost')
    expect(nowMs).toBeGreaterThan(60_000)
    await connection.close()
  })

  test('a script stops at its budget, and what is left goes into others', async () => {
    await fill(redis, 'a', 1_000)
    const batches: number[] = []
    const job = expire(HOUR_MS)
    const hurried = {
      name: 'hurried',
      async apply(...[connection, keys]: Parameters<typeof job.apply>) {
        const done = await job.apply(connection, keys, 0)
        batches.push(done.changed)
        return done
      },
    }
    const { tally } = await sweep({ connection: overRedis, job: hurried, match: '*', count: 1_000 })
    expect(tally.changed).toBe(1_000)
    expect(Math.max(...batches)).toBe(32)
  })

  test('sweep() counts for a user who may only read, and who may not see INFO', async () => {
    await fill(redis, 'a', 300)
    const rights = [
      'reset',
      'on',
      '>planted-secret-user',
      '~*',
      '+@read',
      '+@connection',
      '+eval_ro',
      '+evalsha_ro',
      '+time',
    ]
    await redis.sendCommand(['ACL', 'SETUSER', 'reader', ...rights])
    const connection = await openDatabase(`redis://reader:planted-secret-user@127.0.0.1:${server.port}`)
    expect((await sweep({ connection, job: countBare, match: '*' })).tally.changed).toBe(300)
    await expect(sweep({ connection, job: expire(HOUR_MS), match: '*' })).rejects.toThrow('NOPERM')
    await connection.close()
  })

  test('sweep() refuses a node of a cluster', async () => {
    const node = await startRedisServer({ args: ['--cluster-enabled', 'yes'] })
    const connection = await openDatabase(`redis://127.0.0.1:${node.port}`)
    await expect(sweep({ connection, job: countBare, match: '*' })).rejects.toThrow(
      'Redis Cluster, which is not supported',
    )
    await connection.close()
    await node.stop()
  })

  test('sweep() looks at a sample, from which the rest can be estimated', async () => {
    await fill(redis, 'a', 20_000)
    await fill(redis, 'b', 20_000)
    const { tally, share, isComplete } = await sweep({
      connection: overRedis,
      job: countBare,
      match: 'a*',
      sampleKeys: 4_000,
    })
    expect(isComplete).toBe(false)
    expect(tally.seen).toBeGreaterThanOrEqual(4_000)
    // Six standard deviations of a sample of that size.
    expect(Math.abs(tally.seen / share - 20_000)).toBeLessThan(2_000)
  })

  test('sweep() looks at ten times as many others, and no more, for a pattern that nothing matches', async () => {
    await fill(redis, 'a', 20_000)
    const { tally, share } = await sweep({ connection: overRedis, job: countBare, match: 'b*', sampleKeys: 1_000 })
    expect(tally.seen).toBe(0)
    expect(share).toBeGreaterThan(0.2)
    expect(share).toBeLessThan(0.8)
  })

  test('findShareOfTable() only grows, and is the share of the keys that SCAN has passed', async () => {
    await fill(redis, 'a', 20_000)
    let [cursor, passed, before] = ['0', 0, 0]
    do {
      const page = await scan(overRedis, cursor, '*', 500)
      cursor = page.cursor
      passed += page.keys.length
      const share = cursor === '0' ? 1 : findShareOfTable(cursor)
      expect(share).toBeGreaterThan(before)
      expect(Math.abs(share - passed / 20_000)).toBeLessThan(0.03)
      before = share
    } while (cursor !== '0')
  })
})
