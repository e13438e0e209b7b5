/**
 * What operators are told is what the next request meets, or that it is not known: over plans, overrides, allows, blocks,
 * pushed policies, shadow mode, lost and invalid rules, an outage, a slow store, and a circuit that nobody closes.
 */
import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest'
import type * as dashboard from '../../dashboard/answers.ts'
import { findTone, listSigns } from '../../dashboard/signs.ts'
import type { Connection } from '../../src/command/redis/connection.ts'
import { openDatabase } from '../../src/command/redis/open-database.ts'
import { KeyWatch, OwnKeys } from '../../src/command/top/key-watch.ts'
import { decorate } from '../../src/core/engine/stages/stage.ts'
import { ALGORITHM_NAMES } from '../../src/core/model/limits.ts'
import type { RequestPolicy } from '../../src/core/model/policy.ts'
import { StoreError } from '../../src/core/model/store.ts'
import { createDigest } from '../../src/core/runtime/digest.ts'
import type { Backend } from '../../src/core/store/backend.ts'
import { openMemoryBackend } from '../../src/core/store/memory/memory-store.ts'
import { MemoryDocuments } from '../../src/core/store/memory/memory-tables.ts'
import { findNextRequest } from '../../src/gateway/admin/next-request.ts'
import { readUsage } from '../../src/gateway/callers/caller-charges.ts'
import { createGateway } from '../../src/gateway/create-gateway.ts'
import { createRulesReader } from '../../src/gateway/rules/rule-effects.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'
import { createDigestCharge } from '../../src/http/request/charge-builder.ts'
import { ADMIN_TOKEN } from '../support/operator.ts'
import { ownRedis } from '../support/own-redis.ts'
import { expectProperty } from '../support/property.ts'
import { openDatabase as connectDatabase } from '../support/upkeep.ts'

const IP = '203.0.113.7'
const DIGEST = createDigest(undefined)(['token', 'a'])
const TEAM = { by: 'header:x-team', digest: createDigest(undefined)(['header:x-team', 'acme']) }
const PAST = '2020-01-01T00:00:00Z'

const PLANS = { limits: { free: '2/1h', pro: '4/1h' }, plan: 'header:x-plan', default_plan: 'free' }
const plain = { name: 'api', limits: '3/1h' }
const withPlans = { name: 'api', ...PLANS }
const tried = { name: 'tried', limits: '1/1h', mode: 'shadow' }
const byAddress = { name: 'address', limits: '5/1h', by: 'ip' }
const pushes: readonly (readonly { readonly name: string; readonly [key: string]: unknown }[])[] = [
  [{ name: 'api', limits: '5/1h' }, tried],
  [{ name: 'pushed', limits: '1/1h' }],
  [withPlans, byAddress],
]

const target = fc.constantFrom<object>({ by: 'token', digest: DIGEST }, { digest: DIGEST }, TEAM)
const until = fc.constantFrom({}, {}, { until: PAST })
const effect = fc.constantFrom<object>(
  { multiplier: 2 },
  { multiplier: 0.5 },
  { unlimited: true },
  { limits: { api: '9/1h' } },
)
/** Where everything is ruled, nothing but the strongest rule is tried. */
const SELDOM = { freq: 2 }
const ruleSet = fc
  .record({
    overrides: fc.option(fc.tuple(target, effect, until), SELDOM),
    allows: fc.option(fc.tuple(fc.oneof(target, fc.constant({ cidr: '203.0.113.0/24' })), until), SELDOM),
    blocks: fc.option(
      fc.tuple(fc.oneof(target, fc.constantFrom({ country: 'DE' }, { cidr: '198.51.100.0/24' })), until),
      SELDOM,
    ),
    policies: fc.option(fc.constantFrom(...pushes), SELDOM),
  })
  .map(({ overrides, allows, blocks, policies }) => {
    const join = (parts: readonly object[] | null) => (parts ? [Object.assign({}, ...parts) as Named] : [])
    const rules = { overrides: join(overrides), allows: join(allows), blocks: join(blocks) }
    // Limits for a policy that there is not would be refused.
    const isFit = !policies || policies.some(({ name }) => name === 'api')
    if (!isFit) rules.overrides = rules.overrides.filter((one) => !('limits' in one))
    return { ...rules, ...(policies && { policies }) }
  })

interface Named {
  readonly by?: string
  readonly digest?: string
  readonly cidr?: string
  readonly country?: string
  readonly until?: string
}

const plan = fc.constantFrom(undefined, 'free', 'pro')
const EVENTS = ['none', 'lost', 'edited when lost', 'invalid', 'away', 'slow', 'idle circuit'] as const
const story = fc.record({
  deployed: fc.constantFrom([plain], [withPlans], [withPlans], [withPlans, tried], [plain, byAddress]),
  mode: fc.constantFrom('enforce', 'enforce', 'shadow'),
  onStoreError: fc.constantFrom('local', 'open', 'closed'),
  rules: fc.option(ruleSet, SELDOM),
  /** How many requests come before the rules, and after them. */
  before: fc.array(plan, { maxLength: 4, size: 'max' }),
  after: fc.array(plan, { maxLength: 4, size: 'max' }),
  event: fc.constantFrom(...EVENTS),
  knows: fc.record({ ip: fc.boolean(), plan: fc.boolean(), team: fc.boolean() }),
  next: plan,
})
type Story = typeof story extends fc.Arbitrary<infer Values> ? Values : never

let nowMs = 0
beforeEach(() => {
  nowMs = Date.UTC(2026, 10, 28, 12)
  vi.useFakeTimers({ toFake: ['Date'], now: nowMs })
  // What so many gateways log.
  for (const level of ['info', 'log', 'warn', 'error'] as const) vi.spyOn(console, level).mockImplementation(() => {})
})
afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})

/** A gateway in this process, over a store that can be away, or slow. */
class Site {
  isAway = false
  isSlow = false
  /** Decisions that the store has made. */
  decided = 0
  /** Statuses that clients have seen, and how many of them were decided without the store. */
  readonly statuses: number[] = []
  degraded = 0
  readonly keyPrefix = `said-${randomUUID()}`
  readonly #ending = new AbortController()
  readonly #background: Promise<unknown>[] = []
  #parts: Awaited<ReturnType<typeof createGateway>> | undefined
  readonly #backend: Backend

  constructor(backend: Backend) {
    this.#backend = backend
  }

  async start({ deployed, mode, onStoreError }: Story): Promise<void> {
    const env = {
      ...{ RATE_LIMITS: 'off', POLICIES: deployed, MODE: mode, ON_STORE_ERROR: onStoreError },
      ...{ RULES: 'on', STATISTICS: 'on', ADMIN_TOKEN, KEY_PREFIX: this.keyPrefix },
      UPSTREAM: { fetch: async () => new Response('ok') },
    }
    this.#parts = await createGateway(env, { open: () => this.#wrap(), ending: this.#ending.signal })
  }

  get parts() {
    if (!this.#parts) throw new Error('not started')
    return this.#parts
  }

  #wrap(): Backend {
    const fail = async () => {
      // A decision has a deadline; what answers late is given up.
      if (this.isAway || this.isSlow) throw new StoreError('unavailable')
    }
    const { limits } = this.#backend
    return {
      ...this.#backend,
      limits: decorate(limits, {
        decide: async (request, context) => {
          await fail()
          const decision = await limits.decide(request, context)
          if (request.action !== 'peek') this.decided++
          return decision
        },
        ping: async () => {
          if (this.isAway) throw new StoreError('unavailable')
          if (this.isSlow) vi.setSystemTime(Date.now() + 709)
          await limits.ping()
        },
      }),
      documents: async (key) => ({
        read: async (known) => {
          if (this.isAway) throw new StoreError('unavailable')
          return (await this.#backend.documents(key)).read(known)
        },
        readVersion: async (version) => (await this.#backend.documents(key)).readVersion(version),
        readHistory: async () => (await this.#backend.documents(key)).readHistory(),
        write: async (write) => (await this.#backend.documents(key)).write(write),
      }),
    }
  }

  /** Writes rules as another isolate, or a program, does. */
  async write(text: string): Promise<void> {
    const documents = await this.#backend.documents(`${this.keyPrefix}:rules`)
    const { version: expectedVersion = 0 } = (await documents.read()) ?? {}
    expect((await documents.write({ text, expectedVersion, actor: 'test', comment: '' })).kind).toBe('written')
  }

  async request(plan: string | undefined, token = 'a'): Promise<Response> {
    const headers = {
      ...{ Authorization: `Bearer ${token}`, 'X-Team': token === 'a' ? 'acme' : 'others' },
      'CF-Connecting-IP': token === 'a' ? IP : `2001:db8::${token.length}`,
      ...(plan !== undefined && { 'X-Plan': plan }),
    }
    const response = await this.#fetch(new Request('https://gateway.test/things', { headers }))
    this.statuses.push(response.status)
    if (response.headers.has('Sluice-Degraded')) this.degraded++
    return response
  }

  async ask(path: string, body?: object): Promise<Response> {
    const headers = { Authorization: `Bearer ${ADMIN_TOKEN}`, 'Content-Type': 'application/json' }
    const post = body && { method: 'POST', body: JSON.stringify(body) }
    return this.#fetch(new Request(`https://gateway.test/_sluice/admin${path}`, { headers, ...post }))
  }

  async read<T>(path: string, body?: object): Promise<T> {
    const response = await this.ask(path, body)
    expect([path, response.status]).toEqual([path, 200])
    return response.json() as Promise<T>
  }

  /** Sends what was counted. */
  async end(): Promise<void> {
    this.#ending.abort()
    for (let work = this.#background.shift(); work; work = this.#background.shift()) await work
  }

  #fetch(request: Request): Response | Promise<Response> {
    const context = {
      waitUntil: (work: Promise<unknown>) => this.#background.push(work),
      passThroughOnException() {},
      props: {},
    }
    return this.parts.app.fetch(request, {}, context as never)
  }
}

/** What has been told before it happened. */
const tally: Record<string, number> = {}
const count = (name: string) => {
  tally[name] = (tally[name] ?? 0) + 1
}

interface Place {
  open(): Promise<Backend & { lose(key: string): unknown }>
  /** Only Redis has keys to watch. */
  watch?(backend: Backend): KeyWatch
}

const redis = ownRedis()
let connection: Connection
beforeAll(async () => {
  connection = await connectDatabase(`redis://127.0.0.1:${redis.port}`)
})
afterAll(async () => {
  await connection.close()
  if (inject('fuzz').isLong) console.log(JSON.stringify(tally))
})

const PLACES: Readonly<Record<string, Place>> = {
  memory: {
    async open() {
      const documents = new Map<string, MemoryDocuments>()
      return {
        ...openMemoryBackend(() => Date.now()),
        async documents(key) {
          const known = documents.get(key) ?? new MemoryDocuments(() => Date.now())
          documents.set(key, known)
          return known
        },
        lose: (key) => void documents.delete(key),
      }
    },
  },
  redis: {
    async open() {
      await redis.client.flushAll()
      return { ...openDatabase(connection, { policies: [] }), lose: (key) => redis.client.del(key) }
    },
    watch: ({ limits: store }) => new KeyWatch({ connection, store, sample: 1_000, rows: 50 }),
  },
}

function isNamed({ by, digest, cidr, until }: Named): boolean {
  if (until === PAST) return false
  return cidr === '203.0.113.0/24' || digest === DIGEST || (by === TEAM.by && digest === TEAM.digest)
}

describe.each(Object.entries(PLACES))('%s', (_name, place) => {
  test('what is said is what happens next', () =>
    expectProperty(
      fc.asyncProperty(story, async (story) => {
        const { rules, before, after, event, knows, next } = story
        vi.setSystemTime(nowMs)
        const backend = await place.open()
        const site = new Site(backend)
        await site.start(story)
        await site.request(undefined, 'first')
        for (const plan of before) await site.request(plan)
        if (rules) {
          await site.write(JSON.stringify(rules))
          await site.read('/rules')
        }
        for (const plan of after) await site.request(plan)

        const isLost = rules !== null && (event === 'lost' || event === 'edited when lost')
        if (isLost) await backend.lose(`${site.keyPrefix}:rules`)
        if (event === 'invalid') await site.write('{"blocks":[{"token":"a"}]}')
        if (event === 'away') site.isAway = true
        if (event === 'slow') site.isSlow = true
        if (event === 'idle circuit') {
          site.isAway = true
          for (let at = 0; at < 6; at++) await site.request(undefined, `before-${at}`)
          site.isAway = false
        }

        if (isLost && event === 'edited when lost') {
          const listed = await site.read<dashboard.RulesNow>('/rules')
          await site.read('/block', { target: { token: 'other' } })
          const now = await site.read<dashboard.RulesNow>('/rules')
          expect(now.isolate.state).toBe('active')
          expect(now.rules).toEqual({
            ...listed.rules,
            // What has ended is dropped by an edit.
            ...Object.fromEntries(
              (['allows', 'overrides'] as const).map((list) => [
                list,
                listed.rules[list].filter((one) => one.until !== PAST),
              ]),
            ),
            blocks: [...listed.rules.blocks.filter((one) => one.until !== PAST), expect.anything()],
          })
        }

        // Everything is asked before the request comes.
        const health = await site.read<dashboard.Status>('/status')
        const active = await site.read<dashboard.Policies>('/policies')
        const listed = await site.read<dashboard.RulesNow>('/rules')
        const caller = {
          token: 'a',
          ...(knows.ip && { ip: IP }),
          ...((knows.plan || knows.team) && {
            header: {
              ...(knows.team && { 'x-team': 'acme' }),
              ...(knows.plan && next !== undefined && { 'x-plan': next }),
            },
          }),
        }
        const usageAnswer = await site.ask('/usage', { caller })
        const usage = usageAnswer.status === 200 ? ((await usageAnswer.json()) as dashboard.CallerUsage) : undefined
        const isWell = !site.isAway && !site.isSlow
        const top = isWell ? await look(site, backend, place, active) : undefined

        const decidedBefore = site.decided
        const response = await site.request(next)
        const { status } = response
        if (site.decided === decidedBefore) await site.request(undefined, 'probe')
        const isDecided = site.decided > decidedBefore

        // Health
        count(`health ${health.store.state}`)
        expect([health.store.state === 'answers', health.status === 'ok']).toEqual([isDecided, isDecided])

        if (event === 'idle circuit') expect(health.store.state).toBe('answers')

        // Rules
        const expected =
          isLost && event === 'lost' ? 'lost' : rules || event === 'edited when lost' ? 'active' : 'deployed'
        const state =
          event === 'away'
            ? 'unknown'
            : event === 'invalid'
              ? 'invalid'
              : event === 'edited when lost' && !rules
                ? 'deployed'
                : expected
        count(`rules ${state}`)
        expect([listed.isolate.state, active.active.state]).toEqual([state, state])
        const { blocks, allows } = listed.rules as unknown as { blocks: Named[]; allows: Named[] }
        // By its digest alone, an allow lifts only blocks like itself.
        const isByDigest = ({ by, digest }: Named) => digest !== undefined && by === undefined
        const isLifted = (block: Named) => allows.some((one) => isNamed(one) && (isByDigest(block) || !isByDigest(one)))
        const isBlocked = blocks.some((one) => isNamed(one) && !isLifted(one)) && story.mode === 'enforce'
        expect(status === 403).toBe(isBlocked)
        const policyField = response.headers.get('RateLimit-Policy') ?? ''
        for (const [, name = ''] of policyField.matchAll(/"([\w-]+)-1h"/g)) {
          expect(active.policies.map((policy) => policy.name)).toContain(name)
        }

        // Usage
        if (!isWell) expect(usageAnswer.status).toBe(503)
        if (usage) {
          const found = findNextRequest(usage, usage.limits)
          count(`next ${found.kind}${usage.undecided.length > 0 ? ', undecided' : ''}`)
          const open = (one: Named) =>
            one.until !== PAST &&
            (one.country !== undefined || (one.cidr !== undefined && !knows.ip) || (one.by === TEAM.by && !knows.team))
          const isOpen = [blocks, allows, listed.rules.overrides as Named[]].flat().some(open)
          // An allow settles it, unless it names a digest alone.
          const isSettled = allows.some((one) => isNamed(one) && !isByDigest(one) && !open(one))
          expect(usage.undecided.length > 0).toBe(isOpen && !isSettled)
          const usesPlan = next ?? (active.policies.some(({ plans }) => plans) ? 'free' : '')
          const met = {
            ...{
              blocked: found.kind === 'blocked' ? found.block.status : 0,
              allowed: 200,
              admitted: 200,
              limited: 429,
            },
            depends: found.kind === 'depends' && found.plans.includes(usesPlan) ? 429 : 200,
          }[found.kind]
          // By address, it may be counted although it is not known here.
          const isSkipped = usage.skipped.length > 0
          if (usage.undecided.length === 0 && !isSkipped) expect([found.kind, status]).toEqual([found.kind, met])
          expect(usage.active.state).toBe(state)
        }

        // top
        if (top && status === 429) {
          const isListed = [...top.atLimit, ...top.busiest].some(
            (row) => row.looksAtLimit > 0 || row.undecided.length > 0 || row.plan !== null,
          )
          expect(isListed).toBe(true)
        }
        for (const { digest, policy, plan, limitName, limit, undecided } of top?.busiest ?? []) {
          if (digest !== DIGEST || undecided.length > 0 || !usage || usage.undecided.length > 0) continue
          const limits = usage.limits.filter((one) => one.policy === policy && one.name === limitName)
          // Where all plans have the same limits by a rule, none is named.
          const found = limits.filter((one) => one.plan === null || plan === null || one.plan === plan)
          // A plan that is known to be another says nothing of this one.
          if (found.length > 0) expect(found.map((one) => one.limit)).toContain(limit)
        }
        for (const row of top?.atLimit ?? []) {
          count('top at limit')
          const isOfCaller = row.digest === DIGEST && row.plan === null && row.undecided.length === 0
          if (isOfCaller) expect([429, 403]).toContain(status)
          if (isOfCaller && row.effect === null) expect(status).toBe(429)
        }

        // Statistics, and what Overview makes of all that
        site.isAway = false
        site.isSlow = false
        await site.end()
        const counted = await site.read<dashboard.Counted>('/statistics?by=hour&periods=2')
        const { requests, degraded } = counted.total
        const sum = (of: number) => site.statuses.filter((one) => one === of).length
        expect(requests).toMatchObject({
          admitted: sum(200),
          limited: sum(429),
          blocked: sum(403),
          unavailable: sum(503),
        })
        expect(Object.values(degraded).reduce((all, one) => all + one, 0)).toBe(site.degraded)
        const known = { status: health, active, counted, longer: undefined, problem: undefined }
        const tone = findTone(listSigns(known))
        count(`overview ${tone}`)
        if (tone === 'good')
          expect([isDecided, site.degraded, ['active', 'deployed'].includes(state)]).toEqual([true, 0, true])
        if (site.degraded > 0 || !isDecided || state === 'lost' || state === 'invalid') expect(tone).not.toBe('good')
        for (const one of ['status', 'active', 'counted']) {
          expect(findTone(listSigns({ ...known, [one]: undefined }))).not.toBe('good')
        }
      }),
      1_000,
    ))
})

const LOWERED = fc.record({
  algorithm: fc.constantFrom(...ALGORITHM_NAMES),
  taken: fc.integer({ min: 1, max: 30 }),
  limit: fc.integer({ min: 1, max: 30 }),
})

describe.each(Object.entries(PLACES))('%s', (_name, place) => {
  test('what was used is told, although the limit was lowered since', () =>
    expectProperty(
      fc.asyncProperty(LOWERED, async ({ algorithm, taken, limit }) => {
        const { limits: store } = await place.open()
        const table = (units: number) => ({
          name: 'api',
          algorithm,
          limits: algorithm === 'concurrency' ? `${units}` : `${units}/1h`,
        })
        const load = (units: number) =>
          loadConfig({ UPSTREAM_URL: 'https://api.test', RATE_LIMITS: 'off', POLICIES: [table(units)] })
            .policies[0] as RequestPolicy
        const [before, after] = [load(30), load(limit)].map((policy) => createDigestCharge(policy, DIGEST, 'said'))
        if (!before || !after) throw new Error('no charge')
        for (let slot = 1; slot <= taken; slot++) {
          const charge = algorithm === 'concurrency' ? { ...before, slot } : before
          await store.decide({ action: 'take', permits: 1, charges: [charge] })
        }
        const { limits } = await readUsage(store, [after])
        const [reported] = limits[0] ?? []
        expect(reported?.remaining).toBe(Math.max(0, limit - taken))
        // A bucket by another rate lacks whole units, and is refilled meanwhile.
        if (algorithm === 'token-bucket') expect(Math.abs((reported?.used ?? 0) - taken)).toBeLessThanOrEqual(1)
        else expect(reported?.used).toBe(taken)
      }),
      100,
    ))
})

async function look(site: Site, backend: Backend, place: Place, { active }: dashboard.Policies) {
  const watch = place.watch?.(backend)
  const { config, gateway } = site.parts
  const found = await gateway.rulesEngine?.look()
  if (!watch || !found) return undefined
  expect(found.kind).toBe(active.state)
  const { rules, policies } = found
  const applyRules = createRulesReader(rules, config, Date.now)
  return watch.look({ ownKeys: new OwnKeys({ ...config, policies }), rules, applyRules })
}
