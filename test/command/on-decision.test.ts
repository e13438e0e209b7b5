/** `sluice serve --on-decision`, in a real process. */
import { randomUUID } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { DECIDE_TOKEN } from '../support/decisions.ts'
import { send } from '../support/http-client.ts'
import { descriptor, RateLimitClient } from '../support/rate-limit-client.ts'
import { type ServingProcess, startServing } from '../support/serving-process.ts'
import { runInside } from './run-command.ts'

const HOUR_MS = 3_600_000
const CALLER = '192.0.2.7'

const decide = (url: URL, question: object) =>
  send(url, {
    method: 'POST',
    path: '/_sluice/decide',
    headers: { Authorization: `Bearer ${DECIDE_TOKEN}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(question),
  })

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

describe('sluice serve --on-decision', () => {
  let serving: ServingProcess
  let client: RateLimitClient
  beforeAll(async () => {
    // What it gets besides the decision would be written, too.
    const hook = `import { appendFileSync } from 'node:fs'
      export default function write(...args) {
        appendFileSync(${JSON.stringify(join(folder, 'decisions'))}, JSON.stringify(args) + '\\n')
      }`
    writeFileSync(join(folder, 'hook.mjs'), hook)
    const descriptors = [
      { key: 'user', rate_limit: { limits: '3/1h', name: 'by-user' } },
      { key: 'none', rate_limit: { unit: 'hour', requests_per_unit: 0 } },
    ]
    writeFileSync(join(folder, 'limits.yaml'), JSON.stringify({ domain: 'd', descriptors }))
    const variables = {
      REDIS_URL: `redis://127.0.0.1:${inject('redisPort')}`,
      KEY_PREFIX: randomUUID(),
      POLICIES: [{ name: 'login', by: 'ip', match: 'POST /login', limits: '1/1h' }],
      RATE_LIMITS: '3/1h',
      STATISTICS: 'on',
      RULES: 'on',
    }
    const grpc = ['--grpc', '0', '--ratelimit-config', join(folder, 'limits.yaml')]
    serving = await startServing(variables, [...grpc, '--on-decision', join(folder, 'hook.mjs')])
    client = new RateLimitClient(serving.grpc)
  })
  afterAll(async () => {
    client?.[Symbol.dispose]()
    await serving?.stop()
  })

  /** Decisions of what `work` asks, without what the clock says. */
  async function observe(work: () => Promise<unknown>): Promise<readonly unknown[]> {
    writeFileSync(join(folder, 'decisions'), '')
    await work()
    const written = readFileSync(join(folder, 'decisions'), 'utf8')
    for (const secret of [CALLER, 'alice', DECIDE_TOKEN]) expect(written).not.toContain(secret)
    return written
      .trim()
      .split('\n')
      .map((line) => {
        const [decision, ...more] = JSON.parse(line)
        expect([decision.durationMs >= 0, more]).toEqual([true, []])
        return decision
      })
  }
  const ask = (question: object) => decide(serving.url, question)
  const authorize = (method: string, uri: string) =>
    send(serving.url, {
      path: '/_sluice/authorize',
      headers: {
        'Sluice-Token': DECIDE_TOKEN,
        'X-Forwarded-Method': method,
        'X-Forwarded-Uri': uri,
        'X-Forwarded-Host': 'api.test',
        'X-Forwarded-For': CALLER,
      },
    })
  const withRemaining = (policy: string, remaining: number) =>
    expect.objectContaining({ policy, windowMs: HOUR_MS, remaining })

  test('tells of questions what the library tells', async () => {
    const question = { policy: 'default', identity: 'alice' }
    const decisions = await observe(async () => {
      await ask({ ...question, action: 'take-up-to', permits: 5 })
      await ask({ ...question, action: 'peek' })
      await ask(question)
      await ask(question)
      const both = [question, { ...question, identity: 'alice again', cost: 2 }]
      await ask({ charges: both, action: 'peek' })
    })
    const limits = [withRemaining('default', 0)]
    const costs = { default: 1 }
    expect(decisions).toEqual(
      [
        { action: 'take-up-to', permits: 5, granted: 3, limits, costs, decidedBy: 'store', retryAfterMs: 0 },
        { action: 'peek', permits: 1, granted: 0, limits, costs, decidedBy: 'store' },
        { action: 'take', permits: 1, granted: 0, limits, costs, decidedBy: 'store' },
        { action: 'take', permits: 1, granted: 0, limits, costs, decidedBy: 'refusal-cache' },
        { action: 'peek', permits: 1, granted: 0, costs: { default: 3 }, decidedBy: 'store' },
      ].map((decision) => expect.objectContaining(decision)),
    )
  })

  test('tells neither of a settlement nor of a question that cannot be read', async () => {
    const question = { policy: 'default', identity: 'bob' }
    const decisions = await observe(async () => {
      const taken = JSON.parse((await ask(question)).body.toString())
      const settling = { action: 'settle', actual: 2, decidedAtMs: taken.decidedAtMs }
      expect((await ask({ ...question, ...settling })).status).toBe(200)
      expect((await ask({ ...question, policy: 'nothing' })).status).toBe(400)
    })
    expect(decisions).toEqual([expect.objectContaining({ action: 'take', granted: 1 })])
  })

  test('tells of requests what the middleware tells, under runtime rules, too', async () => {
    const decisions = await observe(async () => {
      for (let at = 0; at < 3; at++) await authorize('POST', '/login')
      await authorize('POST', '/a%2F..%2Flogin')
    })
    const costs = { login: 1, default: 1 }
    const refused = { outcome: 'limited', retryAfterMs: expect.any(Number), costs }
    expect(decisions).toEqual(
      [
        {
          outcome: 'admitted',
          limits: [withRemaining('default', 2), withRemaining('login', 0)],
          costs,
          decidedBy: 'store',
        },
        { ...refused, decidedBy: 'store' },
        { ...refused, decidedBy: 'refusal-cache' },
        { outcome: 'ambiguous_path', limits: [], costs: {} },
      ].map((decision) => expect.objectContaining(decision)),
    )
  })

  test('tells of the rate limit service once a request, with the hits of each rule', async () => {
    const decisions = await observe(async () => {
      await client.ask('d', [descriptor(['user', 'alice']), descriptor(['user', 'other'])], { hitsAddend: 2 })
      await client.ask('d', [descriptor(['user', 'alice'])], { hitsAddend: 2 })
      await client.ask('d', [descriptor(['user', 'alice']), descriptor(['none', 'alice'])])
      await client.ask('d', [descriptor(['unknown', 'alice'])])
    })
    expect(decisions).toEqual([
      expect.objectContaining({
        outcome: 'admitted',
        limits: [withRemaining('by-user', 1), withRemaining('by-user', 1)],
        costs: { 'by-user': 4 },
        decidedBy: 'store',
      }),
      expect.objectContaining({
        outcome: 'limited',
        limits: [withRemaining('by-user', 1)],
        retryAfterMs: expect.any(Number),
        costs: { 'by-user': 2 },
        decidedBy: 'store',
      }),
      // No wait helps against a limit of 0.
      expect.objectContaining({ outcome: 'limited', limits: [withRemaining('by-user', 1)], costs: { 'by-user': 1 } }),
      { outcome: 'admitted', limits: [], costs: {}, durationMs: expect.any(Number) },
    ])
    expect(decisions[2]).not.toHaveProperty('retryAfterMs')
  })
})

test('what the function of --on-decision throws is logged, and changes no answer', async () => {
  const hook = join(folder, 'throws.mjs')
  writeFileSync(hook, 'export default async () => { throw new Error("of the hook") }')
  const serving = await startServing({ STORE: 'memory' }, ['--on-decision', hook])
  expect((await decide(serving.url, { policy: 'default', identity: 'alice' })).status).toBe(200)
  const { code, stderr } = await serving.end()
  const line = JSON.stringify({ event: 'background_error', message: '--on-decision: of the hook' })
  expect([code, stderr]).toEqual([0, `${line}\n`])
})

test.each([
  ['exports no function', 'export default 1', ''],
  ['has no default export', 'export const onDecision = () => {}', ''],
  ['fails', 'throw new Error("of the module\\nand more")', ': of the module'],
  ['is not there', undefined, ": Cannot find module '"],
])('sluice serve does not start if the file of --on-decision %s', async (_, text, cause) => {
  const file = `${randomUUID()}.mjs`
  if (text !== undefined) writeFileSync(join(folder, file), text)
  const env = { DECIDE_TOKEN, STORE: 'memory' }
  const args = ['serve', '--port', '0', '--on-decision', file]
  const { code, stdout, stderr } = await runInside(args, { env, cwd: folder })
  expect([code, stdout]).toEqual([2, ''])
  const expected = 'expected a module whose default export is a function'
  const [line, ...more] = stderr.split('\n')
  expect(line?.startsWith(`error: --on-decision: ${expected}, got "${file}"${cause}`)).toBe(true)
  expect(more).toEqual([''])
})
