import { describe, expect, test } from 'vitest'
import { CALLER_KIND_NAMES, type CallerKind } from '../../src/core/model/identity-source.ts'
import { createDigest } from '../../src/core/runtime/digest.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { MemoryCounters, MemoryDocuments } from '../../src/core/store/memory/memory-tables.ts'
import type { AdminContext, Operation } from '../../src/gateway/admin/operation.ts'
import { toProblem } from '../../src/gateway/admin/operation.ts'
import { push } from '../../src/gateway/admin/operations/policies.ts'
import { allow, block, override, rules } from '../../src/gateway/admin/operations/rules.ts'
import { history, statistics } from '../../src/gateway/admin/operations/statistics.ts'
import { reset, usage } from '../../src/gateway/admin/operations/usage.ts'
import { rollback } from '../../src/gateway/admin/operations/versions.ts'
import { readInput } from '../../src/gateway/api/read-input.ts'
import { LiveRulesEngine } from '../../src/gateway/rules/live-rules-engine.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'
import { composeLimiter } from '../../src/http/request/request-limiter.ts'

const NOW_MS = Date.UTC(2026, 0, 1)
const findDigest = createDigest(undefined)

/** A gateway with these policies, as operators see it. */
function operatedWith(policies: readonly object[], variables: object = {}) {
  const now = () => NOW_MS
  const env = { UPSTREAM_URL: 'https://api.test', RATE_LIMITS: 'off', RULES: 'on', POLICIES: policies, ...variables }
  const store = new MemoryStore(now)
  const counters = new MemoryCounters(now)
  const config = loadConfig(env)
  const log = () => {}
  const composed = composeLimiter({
    ...config,
    store,
    now,
    log,
    leases: undefined,
    health: undefined,
    createSettlement: undefined,
  })
  const documents = new MemoryDocuments(now)
  const auditLog = new MemoryDocuments(now)
  const rules = { refreshMs: 5_000, isShadow: false }
  const parts = { config, env, composed, documents, auditLog, rules, readClaim: undefined, now, log }
  const operated: AdminContext = {
    ...{ config, env, store, engine: store, upstream: undefined, counters, now },
    rulesEngine: new LiveRulesEngine(parts),
    readHealth: () => Promise.reject(new Error('nobody asks')),
  }
  async function ask<Answer>({ run, body, query }: Operation<unknown, Answer>, sent: object = {}) {
    const schema = body ?? query
    return run(operated, schema && readInput(schema, sent))
  }
  const problem = (operation: Operation, sent: object) =>
    ask(operation, sent).then(
      () => undefined,
      (error) => toProblem(error),
    )
  return { operated, store, counters, ask, problem }
}

const LOGIN = { name: 'login', limits: '5/1h', by: 'ip', match: 'POST /login' }

describe('what is counted for everyone', () => {
  const POLICIES = [
    LOGIN,
    { name: 'total', limits: '9/1h', by: 'global' },
    { name: 'search', limits: '9/1h', by: 'route', match: 'GET /search, GET /find' },
    { name: 'paths', limits: '9/1h', by: 'route' },
    { name: 'each', limits: '9/1h', by: 'token+route', match: 'GET /search' },
  ]
  const TOTAL = findDigest(['global', ''])
  const SEARCH = findDigest(['route', 'GET /find'])
  const PATH = findDigest(['route', 'GET /things/7'])
  const CALLER = findDigest(['token', 'abc', 'route', 'GET /search'])

  async function withRefusals() {
    const site = operatedWith(POLICIES)
    const items = [
      ['total', TOTAL],
      ['search', SEARCH],
      ['paths', PATH],
      ['each', CALLER],
    ].map(([policy, digest]) => ({ name: `${policy}:${digest}`, count: 562, over: 0 }))
    const sketches = new Map([['refused', { items, floor: 0 }]])
    await site.counters.add({ source: 'a', number: 1, minutes: [{ startMs: NOW_MS, counts: new Map(), sketches }] })
    return site
  }

  test.each([block, allow, override])(
    '$path refuses to rule for it, since that would hold for everyone',
    async (operation) => {
      const { ask, problem } = await withRefusals()
      const said = operation === override ? { multiplier: 2 } : {}
      for (const digest of [TOTAL, SEARCH, PATH]) {
        const place = { status: 400, extensions: { pointer: '#/target/digest' } }
        expect(await problem(operation, { target: { digest }, ...said })).toMatchObject(place)
        // What was written by an older version can be taken back.
        expect(await problem(operation, { target: { digest }, remove: true })).toBeUndefined()
      }
      expect(await ask(operation, { target: { digest: CALLER }, ...said })).toMatchObject({ changed: true })
    },
  )

  test('statistics distinguish it from callers', async () => {
    const { ask } = await withRefusals()
    const { refused } = await ask(statistics)
    expect(Object.fromEntries(refused.callers.map(({ policy, shared }) => [policy, shared]))).toEqual({
      ...{ total: true, search: true, paths: true, each: false },
    })
  })

  test('a reset of a caller leaves it, unless it is named itself', async () => {
    const { ask } = await withRefusals()
    const caller = { token: 'abc', ip: '203.0.113.7', route: 'GET /search' }
    const drop = async (body: object) => {
      const { keys, skipped } = await ask(reset, body)
      return [keys.map(({ policy }) => policy), skipped.map(({ policy }) => policy)]
    }
    const { limits } = await ask(usage, { caller })
    expect(limits.filter(({ shared }) => shared).map(({ policy }) => policy)).toEqual(['total', 'search', 'paths'])
    expect(await drop({ caller })).toEqual([['each'], ['total', 'search', 'paths']])
    expect(await drop({ caller, policies: ['each', 'total'] })).toEqual([['total', 'each'], []])
    expect((await ask(reset, { caller: { digest: TOTAL } })).keys).toContainEqual(
      expect.objectContaining({ policy: 'total', key: expect.stringContaining(TOTAL) }),
    )
  })

  test('the history of a caller holds none of it', async () => {
    const { ask } = await withRefusals()
    const createPolicies = async (caller: object) => {
      const { refusals } = await ask(history, { caller })
      return refusals?.periods.flatMap(({ policies }) => policies.map(({ policy }) => policy))
    }
    expect(await createPolicies({ token: 'never-seen' })).toEqual([])
    expect(await createPolicies({ token: 'abc' })).toEqual(['each'])
    expect(await createPolicies({ digest: CALLER })).toEqual(['each'])
    expect(await createPolicies({ digest: TOTAL })).toEqual(['total'])
  })
})

test('block, allow and override report whether they hold for all requests of a caller, or only where its digest is counted', async () => {
  const { ask } = operatedWith([LOGIN, { name: 'users', limits: '9/1h', by: 'json:/user' }])
  const findScope = async (target: object) => (await ask(block, { target })).scope
  expect(await findScope({ token: 'abc' })).toBe('all')
  expect(await findScope({ by: 'token', digest: findDigest(['token', 'abc']) })).toBe('all')
  expect(await findScope({ cidr: '203.0.113.0/24' })).toBe('all')
  expect(await findScope({ by: 'header:x-tenant', value: 'acme-*' })).toBe('all')
  expect(await findScope({ digest: findDigest(['token', 'abc', 'route', 'GET /search']) })).toBe('counted')
  expect(await findScope({ json: { '/user': 'alice' } })).toBe('counted')
})

describe('every kind of identity can be named', () => {
  /** A policy by it, and a caller as the API has it. */
  const KINDS: Readonly<Record<CallerKind, readonly [by: string, caller: object, value: string]>> = {
    token: ['token', { token: 'abc' }, 'abc'],
    ip: ['ip', { ip: '203.0.113.7' }, '203.0.113.7'],
    header: ['header:x-api-key', { header: { 'X-Api-Key': 'k' } }, 'k'],
    query: ['query:key', { query: { key: 'k 1' } }, 'k 1'],
    cookie: ['cookie:sid', { cookie: { sid: 's-1' } }, 's-1'],
    form: ['form:user', { form: { user: 'alice' } }, 'alice'],
    json: ['json:/user/id', { json: { '/user/id': '42' } }, '42'],
    claim: ['claim:/account/id', { claim: { account: { id: 'a' } } }, '"a"'],
  }

  test.each(CALLER_KIND_NAMES)(
    '%s: its use is shown and reset, and rules are made for it, by its value',
    async (kind) => {
      const [by, caller, value] = KINDS[kind]
      const variables = { JWT_SECRET: 'planted-secret-that-signs-tokens-of-tests' }
      const { ask } = operatedWith([{ name: 'own', limits: '9/1h', by }], kind === 'claim' ? variables : {})
      const digest = findDigest([by, value])
      const { limits, skipped } = await ask(usage, { caller })
      expect([limits.map(({ key }) => key.slice(-23, -1)), skipped]).toEqual([[digest], []])
      expect((await ask(reset, { caller })).keys).toHaveLength(1)
      // Rules name one claim, by its pointer.
      await ask(block, { target: kind === 'claim' ? { claim: { '/account/id': 'a' } } : caller })
      const { rules: document } = await ask(rules)
      expect(document.blocks).toMatchObject([{ digest }])
      expect(JSON.stringify(document)).not.toContain('alice')
      expect((await ask(usage, { caller })).blocked).toMatchObject({ status: 403 })
      expect((await ask(history, { caller })).audit).toMatchObject([{ action: 'block' }, { action: 'reset of own' }])
    },
  )

  test.each([
    [{ '/account/id': 'a' }, { account: { id: 'a' } }],
    [{ sub: 'a' }, { sub: 'a', account: { id: 'a' } }],
  ])('claim %j: its history is found where no policy counts by it', async (named, claim) => {
    const { ask } = operatedWith([LOGIN])
    await ask(block, { target: { claim: named } })
    expect((await ask(history, { caller: { claim } })).audit).toMatchObject([{ action: 'block' }])
    expect((await ask(history, { caller: { claim: { sub: 'b', account: { id: 'b' } } } })).audit).toEqual([])
  })

  test.each(CALLER_KIND_NAMES)('%s: who lacks it learns by what it is counted', async (kind) => {
    const [by] = KINDS[kind]
    const variables = { JWT_SECRET: 'planted-secret-that-signs-tokens-of-tests' }
    const { ask } = operatedWith([{ name: 'own', limits: '9/1h', by }], kind === 'claim' ? variables : {})
    const { skipped } = await ask(usage, { caller: { header: { 'X-Other': '1' } } })
    expect(skipped).toEqual([
      { policy: 'own', reason: expect.stringMatching(kind === 'ip' ? /address/ : by), needs: kind },
    ])
  })

  test('a rule for a value in a body is for all spellings that its policy folds', async () => {
    const { ask } = operatedWith([{ name: 'users', limits: '9/1h', by: 'json:/user', fold: 'lower' }])
    await ask(block, { target: { json: { '/user': 'Alice' } } })
    const { blocked } = await ask(usage, { caller: { json: { '/user': 'ALICE' } } })
    expect(blocked).toMatchObject({ status: 403 })
  })

  test('a rule for a value in a body is refused where policies fold it differently', async () => {
    const users = { limits: '9/1h', by: 'json:/user' }
    const { ask, problem } = operatedWith([
      { ...users, name: 'folded', fold: 'lower', match: 'POST /a' },
      { ...users, name: 'plain', match: 'POST /b' },
    ])
    expect(await problem(block, { target: { json: { '/user': 'Alice' } } })).toMatchObject({ status: 400 })
    expect((await ask(block, { target: { json: { '/user': 'alice' } } })).changed).toBe(true)
  })

  test.each([
    [{ form: { user: 'a' } }, '#/target/form'],
    [{ json: { '/user': 'a' } }, '#/target/json'],
  ])('a rule for %j is refused where no policy counts by it alone', async (target, pointer) => {
    const { problem } = operatedWith([LOGIN, { name: 'both', limits: '9/1h', by: 'ip+json:/user+form:user' }])
    expect(await problem(block, { target })).toMatchObject({ status: 400, extensions: { pointer } })
  })
})

test('a rollback is of one section, unless all are requested', async () => {
  const { ask } = operatedWith([LOGIN])
  await ask(block, { target: { token: 'first' } })
  await ask(push, { policies: [{ name: 'tight', limits: '1/1h', by: 'token' }] })
  await ask(block, { target: { token: 'second' } })
  await ask(override, { target: { token: 'third' }, unlimited: true })
  const now = async () => {
    const { blocks, overrides, policies } = (await ask(rules)).rules
    return [blocks.length, overrides.length, policies?.length ?? null]
  }
  expect(await now()).toEqual([2, 1, 1])
  await ask(rollback, { version: 1 })
  expect(await now()).toEqual([2, 1, null])
  await ask(rollback, { version: 3, section: 'policies' })
  expect(await now()).toEqual([2, 1, 1])
  await ask(rollback, { version: 1, section: 'blocks' })
  expect(await now()).toEqual([1, 1, 1])
  await ask(rollback, { version: 1, section: 'all' })
  expect(await now()).toEqual([1, 0, null])
})

test('a rollback is not kept back by overrides that have ended', async () => {
  const { ask, operated } = operatedWith([LOGIN])
  for (const name of ['a', 'b']) await ask(push, { policies: [{ name, limits: '1/1h', by: 'header:x-a' }] })
  await ask(override, { target: { token: 'abc' }, limits: { b: '2/1h' }, for: '1h' })
  Object.assign(operated, { now: () => NOW_MS + 7_200_000 })
  expect(await ask(rollback, { version: 1 })).toEqual({ version: 4, changed: true })
})

test('a rollback to rules that no longer fit the variables is refused at its version', async () => {
  const { ask, problem, operated } = operatedWith([LOGIN])
  await ask(push, { policies: [{ name: 'a', limits: '1/1h', by: 'header:x-a' }] })
  await ask(push, { policies: null })
  const documents = operated.rulesEngine?.documents
  const text = '{"policies":[{"name":"a","limits":"1/1h","by":"claim:sub"}]}'
  await documents?.write({ text, expectedVersion: 2, actor: 'a', comment: 'with JWKS_URL' })
  await ask(rollback, { version: 1 })
  expect(await problem(rollback, { version: 3 })).toMatchObject({
    ...{ status: 400, code: 'invalid_input', extensions: { pointer: '#/version' } },
    detail: expect.stringContaining('expected rules that fit'),
  })
})

describe('the rules', () => {
  test('take the edits of sixty operators at once', async () => {
    const { ask } = operatedWith([LOGIN])
    const edits = Array.from({ length: 60 }, (_, n) => ask(block, { target: { ip: `192.0.2.${n}` } }))
    expect((await Promise.all(edits)).every(({ changed }) => changed)).toBe(true)
    expect((await ask(rules)).rules.blocks).toHaveLength(60)
  })

  test('keep the place of an entry that is edited, so that the same edits again change nothing', async () => {
    const { ask } = operatedWith([LOGIN])
    const [one, other] = [{ target: { ip: '192.0.2.1' } }, { target: { ip: '192.0.2.2' }, reason: 'much' }]
    const changed = []
    for (const edit of [one, other, one, other]) changed.push((await ask(block, edit)).changed)
    expect(changed).toEqual([true, true, false, false])
    expect(await ask(block, { ...one, status: 404 })).toMatchObject({ changed: true, entry: { status: 404 } })
    expect((await ask(rules)).rules.blocks.map(({ status }) => status)).toEqual([404, undefined])
  })

  test.each([
    [{}, undefined],
    [{ for: '90m' }, '2026-01-01T01:30:00Z'],
    [{ until: '2026-12-24T00:00:00Z' }, '2026-12-24T00:00:00Z'],
  ])('end where an operator says %j', async (end, until) => {
    const { ask } = operatedWith([LOGIN])
    await ask(block, { target: { ip: '192.0.2.1' }, ...end })
    expect((await ask(rules)).rules.blocks.map((entry) => entry.until)).toEqual([until])
  })

  test.each([
    [{ for: 'ever' }, '#/for', /a duration/],
    [{ for: '1h', until: '2026-12-24T00:00:00Z' }, '#/for', /not both/],
    [{ until: '2026-01-01T00:00:00Z' }, '#/until', /yet to come/],
    [{ until: 'soon' }, '#/until', /a moment/],
  ])('are refused that end %j', async (end, pointer, detail) => {
    const refusal = await operatedWith([LOGIN]).problem(block, { target: { ip: '192.0.2.1' }, ...end })
    expect(refusal).toMatchObject({ extensions: { pointer }, detail: expect.stringMatching(detail) })
  })

  test('take no text that Redis cannot read, and no cookie that is two', async () => {
    const { problem, ask } = operatedWith([LOGIN])
    const broken = { code: 'invalid_input', status: 400, detail: expect.stringContaining('half characters') }
    expect(await problem(block, { target: { ip: '192.0.2.1' }, reason: 'a\ud800b' })).toMatchObject(broken)
    expect(await problem(push, { policies: [{ ...LOGIN, match: '/\ud800' }] })).toMatchObject(broken)
    expect(await ask(block, { target: { ip: '192.0.2.1' }, reason: '\\ud800 \ud83d\ude00' })).toMatchObject({
      changed: true,
    })
    expect(await problem(block, { target: { cookie: { theme: 'dark; sid=abc' } } })).toMatchObject({
      status: 400,
      detail: expect.stringContaining('without ";"'),
    })
  })

  test('that cannot be read are replaced by older ones, or by none, and by no edit of them', async () => {
    const { ask, problem, operated } = operatedWith([LOGIN])
    await ask(block, { target: { ip: '192.0.2.1' } })
    const text = '{"blocks":[{"asn":1,"note":"of a newer release"}]}'
    const documents = operated.rulesEngine?.documents
    await documents?.write({ text, expectedVersion: 1, actor: 'newer', comment: '' })
    const invalid = { code: 'rules_invalid', status: 500, detail: expect.stringContaining('rules.blocks[0].note') }
    expect(await problem(block, { target: { ip: '192.0.2.2' } })).toMatchObject(invalid)
    expect(await problem(push, { policies: null })).toMatchObject(invalid)
    expect(await problem(rollback, { version: 1, section: 'blocks' })).toMatchObject(invalid)
    // This isolate goes on by the version before.
    const active = { state: 'invalid', version: 1 }
    expect(await ask(usage, { caller: { ip: '192.0.2.1' } })).toMatchObject({ active, blocked: { status: 403 } })
    expect(await ask(rollback, { version: 1, section: 'all' })).toEqual({ version: 3, changed: true })
    expect(await ask(rollback, { version: 1, section: 'all' })).toEqual({ version: 3, changed: false })
    expect(await ask(rollback, { version: 0, section: 'all' })).toEqual({ version: 4, changed: true })
    expect((await ask(rules)).rules.blocks).toEqual([])
  })
})
