/** Each example of docs/testing.md, run as it stands, by the runner that it imports. */
import { execFile } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { mock } from 'node:test'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { createClient } from '@redis/client'
import { afterAll, afterEach, describe, expect, inject, test, vi } from 'vitest'
import { createLimiter } from '../../src/index.ts'
import { throttle } from '../../src/outbound.ts'
import { readPage } from '../support/markdown.ts'
import { ofNode } from '../support/of-node.ts'

const ROOT = join(import.meta.dirname, '../..')
const { code } = await readPage(join(ROOT, 'docs/testing.md'))

// Inside of the repository, so that the examples find what it has installed.
mkdirSync(join(ROOT, 'build'), { recursive: true })
const folder = await mkdtemp(join(ROOT, 'build/docs-testing-'))
afterAll(() => rmSync(folder, { recursive: true }))
vi.stubEnv('REDIS_URL', `redis://127.0.0.1:${inject('redisPort')}`)

const examples = code.map(({ text }, index) => {
  const file = join(folder, `example-${index}.mjs`)
  // The package is what it is made of.
  const ofSources = (_: string, entry = '/index') => `from '${pathToFileURL(join(ROOT, `src${entry}.ts`))}'`
  writeFileSync(file, text.replace(/from 'sluice(\/\w+)?'/g, ofSources))
  return { file, title: /^test\('(.*)', /m.exec(text)?.[1] ?? text, isForNode: text.includes("'node:test'") }
})

// Its own tests and hooks are those of this run.
for (const { file, title } of examples.filter(({ isForNode }) => !isForNode))
  describe(`the example "${title}"`, async () => void (await import(pathToFileURL(file).href)))

test.each(examples.filter(({ isForNode }) => isForNode))('node:test passes "$title"', async ({ file }) => {
  await promisify(execFile)(process.execPath, ['--test', file], { env: { ...ofNode() } as NodeJS.ProcessEnv })
})

describe('what hangs with fake timers', () => {
  const setRealTimeout = setTimeout
  /** Whether work ends within 100 ms of real time; what hangs never does, however fast the machine is. */
  const ends = (work: Promise<unknown>) =>
    Promise.race([work.then(() => true), new Promise<false>((resolve) => setRealTimeout(() => resolve(false), 100))])
  afterEach(() => void vi.useRealTimers())

  test('waitFor(), where the date stands still', async () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    const limiter = createLimiter({ limits: '1/10ms' })
    await limiter.take('caller')
    const stop = new AbortController()
    const waiting = limiter.waitFor('caller', { signal: stop.signal }).catch(() => {})
    expect(await ends(waiting)).toBe(false)
    stop.abort()
  })

  test('throttle(), until the clock is advanced', async () => {
    vi.useFakeTimers()
    const work = throttle(async () => {}, { limiter: createLimiter({ limits: '1/10ms' }), identity: 'partner' })
    await work()
    const second = work()
    expect(await ends(second)).toBe(false)
    await vi.advanceTimersByTimeAsync(20)
    await second
  })

  test('a call of @redis/client, which waits for setImmediate()', async () => {
    const redis = await createClient({ url: process.env.REDIS_URL as string }).connect()
    vi.useFakeTimers()
    const call = redis.ping().catch(() => {})
    expect(await ends(call)).toBe(false)
    vi.useRealTimers()
    redis.destroy()
    await call
  })
})

test('throttle() ends with the timers of node:test, which leave performance.now() as it is', async (t) => {
  mock.timers.enable()
  t.onTestFinished(() => mock.timers.reset())
  const work = throttle(async () => 'done', { limiter: createLimiter({ limits: '1/30s' }), identity: 'partner' })
  await work()
  const second = work()
  await new Promise((resolve) => process.nextTick(resolve))
  mock.timers.tick(60_000)
  expect(await second).toBe('done')
})
