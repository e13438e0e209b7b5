import { describe, expect, test } from 'vitest'
import { withLeases } from '../../src/core/engine/leases/with-leases.ts'
import { createReading } from '../../src/core/model/cost.ts'
import { StoreError } from '../../src/core/model/store.ts'
import { createDigest } from '../../src/core/runtime/digest.ts'
import type { Log } from '../../src/core/runtime/log.ts'
import type { DocumentStore } from '../../src/core/store/documents.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { MemoryDocuments } from '../../src/core/store/memory/memory-tables.ts'
import type { Rules } from '../../src/gateway/rules/document.ts'
import { withEntry, withoutEntry } from '../../src/gateway/rules/edit-rules.ts'
import { LiveRulesEngine } from '../../src/gateway/rules/live-rules-engine.ts'
import { LocationCopy } from '../../src/gateway/rules/location-copy.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'
import { composeLimiter } from '../../src/http/request/request-limiter.ts'
import { createSettlement } from '../../src/http/request/settlement.ts'
import { createPathReader } from '../../src/http/request/target.ts'
import { callContext } from '../support/call-context.ts'
import { editRules } from '../support/edit-rules.ts'

const REFRESH_MS = 5_000
const START_MS = Date.UTC(2026, 0, 1)
const TOKEN = { by: 'token', digest: createDigest(undefined)(['token', 'abc']) }

class Site {
  nowMs = START_MS
  documents = new MemoryDocuments(() => this.nowMs)
  readonly background: Promise<unknown>[] = []
  readonly log: Record<string, unknown>[] = []
  /** Reads so far. */
  reads = 0
  /** Whether reading fails. */
  isUnavailable = false
  /** What a read waits for. */
  answer = Promise.resolve()
  /** What the isolates of this place share. */
  readonly cached = new Map<string, string>()
  /** What a look into it waits for. */
  look = Promise.resolve()
  readonly store: MemoryStore
  readonly limiter: LiveRulesEngine

  constructor(variables: Record<string, unknown> = {}, { hasCache = false } = {}) {
    const now = () => this.nowMs
    const env = { UPSTREAM_URL: 'https://api.test', RATE_LIMITS: '2/1m', RULES: 'on', ...variables }
    const config = loadConfig(env)
    const log: Log = (level, fields) => this.log.push({ level, ...fields })
    this.store = new MemoryStore(now)
    const leases = config.leases === undefined ? undefined : withLeases(config.leases)
    const parts = { ...config, store: this.store, now, log, leases, health: undefined }
    const composed = composeLimiter({ ...parts, createSettlement })
    const documents: DocumentStore = {
      read: async (known) => {
        this.reads++
        await this.answer
        if (this.isUnavailable) throw new StoreError('unavailable')
        return this.documents.read(known)
      },
      readVersion: (version) => this.documents.readVersion(version),
      readHistory: () => this.documents.readHistory(),
      write: (write) => this.documents.write(write),
    }
    const cache = {
      match: async (url: string) => {
        const text = this.cached.get(url)
        await this.look
        return text === undefined ? undefined : new Response(text)
      },
      put: async (url: string, response: Response) => void this.cached.set(url, await response.text()),
    }
    const shared = { openCache: async () => cache, path: '/_sluice/secret', maxAgeMs: REFRESH_MS }
    this.limiter = new LiveRulesEngine({
      copy: hasCache ? new LocationCopy({ documents, now, ...shared }) : undefined,
      readClaim: undefined,
      auditLog: new MemoryDocuments(now),
      rules: { refreshMs: REFRESH_MS, isShadow: config.rules?.isShadow ?? false },
      ...{ documents, config, env, store: {}, composed, now, log },
    })
  }

  decide(token = 'abc', path = '/things') {
    const headers = { Authorization: `Bearer ${token}` }
    const request = new Request(`https://gateway.test${path}`, { headers })
    return this.limiter.decide({ request, path: createPathReader([])(path), context: callContext(this.background) })
  }

  async kind(token?: string, path?: string): Promise<string> {
    return (await this.decide(token, path)).outcome
  }

  edit(change: (rules: Rules) => Rules) {
    return editRules(this.documents, change, { nowMs: START_MS })
  }

  /** All that goes on after answers. */
  async settle(): Promise<void> {
    for (let work = this.background.shift(); work; work = this.background.shift()) await work
  }

  /** After which a change is in force, whatever was read before. */
  async afterRefresh(): Promise<void> {
    this.nowMs += REFRESH_MS
    await this.kind('somebody')
    await this.settle()
  }
}

const block = (rules: Rules) => withEntry('blocks', rules, TOKEN)

describe('LiveRulesEngine reads the rules', () => {
  test('before the first request is decided', async () => {
    const site = new Site()
    await site.edit(block)
    expect(await site.kind()).toBe('blocked')
    expect(await site.kind('other')).toBe('admitted')
    expect(site.reads).toBe(1)
  })

  test('and says nothing where there are none', async () => {
    const site = new Site()
    expect(await site.kind()).toBe('admitted')
    await site.afterRefresh()
    expect([site.reads, site.log]).toEqual([2, []])
  })

  test('again once the refresh is over, while requests go by what was read before', async () => {
    const site = new Site()
    expect(await site.kind()).toBe('admitted')
    await site.edit(block)
    site.nowMs += REFRESH_MS - 1
    expect(await site.kind()).toBe('admitted')
    expect(site.reads).toBe(1)

    site.nowMs += 1
    const { promise, resolve: answer } = Promise.withResolvers<void>()
    site.answer = promise
    // Nobody waits for the answer, and nobody asks for it again.
    expect([await site.kind('b'), await site.kind('b')]).toEqual(['admitted', 'admitted'])
    expect(site.reads).toBe(2)
    answer()
    await site.settle()
    expect(await site.kind()).toBe('blocked')
  })

  test('before a request that comes after twice the refresh is decided', async () => {
    const site = new Site()
    expect(await site.kind()).toBe('admitted')
    await site.edit(block)
    site.nowMs += 2 * REFRESH_MS
    expect(await site.kind()).toBe('blocked')
    expect(site.background).toEqual([])
  })

  test('and keeps them while the store is unavailable, without a request that waits for it', async () => {
    const site = new Site()
    await site.edit(block)
    expect(await site.kind()).toBe('blocked')
    site.isUnavailable = true
    for (let minutes = 0; minutes < 10; minutes++) {
      site.nowMs += 60_000
      expect([await site.kind(), await site.kind('other')]).toEqual(['blocked', 'admitted'])
      await site.settle()
    }
    // The first of them waited, as after any pause.
    expect(site.reads).toBe(1 + 10)
    expect(site.log.filter(({ event }) => event === 'rules_read_failed')).toHaveLength(10)
    site.isUnavailable = false
    await site.edit((rules) => withoutEntry('blocks', rules, TOKEN))
    await site.afterRefresh()
    expect(await site.kind()).toBe('admitted')
  })

  test('later if they cannot be read at first: until then, what was deployed holds', async () => {
    const site = new Site()
    await site.edit(block)
    site.isUnavailable = true
    expect([await site.kind(), await site.kind(), await site.kind()]).toEqual(['admitted', 'admitted', 'limited'])
    expect(site.reads).toBe(1)
    expect(site.log).toContainEqual({ level: 'warn', event: 'rules_read_failed', version: 0, message: 'unavailable' })
    site.isUnavailable = false
    await site.afterRefresh()
    expect(await site.kind()).toBe('blocked')
    expect(site.limiter.active).toMatchObject({ kind: 'active', version: 1, readAtMs: START_MS + REFRESH_MS })
  })

  test('and goes by the newest answer, not by the latest to arrive', async () => {
    const site = new Site()
    expect(await site.kind()).toBe('admitted')
    await site.edit(block)
    const { promise, resolve: answer } = Promise.withResolvers<void>()
    site.answer = promise
    site.nowMs += REFRESH_MS
    await site.kind('b')
    site.answer = Promise.resolve()
    site.nowMs += REFRESH_MS
    expect(await site.kind()).toBe('blocked')
    // The first attempt is answered now, by a read of its own.
    site.isUnavailable = true
    answer()
    await site.settle()
    expect(await site.kind()).toBe('blocked')
    expect(site.log.filter(({ event }) => event === 'rules_read_failed')).toEqual([])
  })

  test('and leaves those in force that make sense, if newer ones do not', async () => {
    const site = new Site()
    await site.edit(block)
    await site.documents.write({
      text: '{"blocks":[{"token":"abc"}]}',
      expectedVersion: 1,
      actor: 'test',
      comment: 'test',
    })
    await site.kind('other')
    expect(site.limiter.active).toMatchObject({
      version: 0,
      problem: expect.stringContaining('rules.blocks[0].token'),
    })
    await site.documents.write({
      text: '{"policies":[{"name":"default","limits":"1/1m","cost":2}]}',
      expectedVersion: 2,
      actor: 'test',
      comment: 'test',
    })
    await site.afterRefresh()
    expect(site.limiter.active.version).toBe(0)
    expect(await site.kind()).toBe('admitted')
    await site.edit((rules) => ({ ...rules, policies: undefined, blocks: [TOKEN] })).catch(() => {})
    expect(site.log.filter(({ event }) => event === 'rules_invalid')).toHaveLength(2)
    expect(JSON.stringify(site.log)).not.toContain('abc')
  })

  test('and keeps them if they are gone from the store, until others are written', async () => {
    const site = new Site()
    await site.edit(block)
    expect(await site.kind()).toBe('blocked')
    site.documents = new MemoryDocuments(() => site.nowMs)
    await site.afterRefresh()
    expect(await site.kind()).toBe('blocked')
    expect(site.log).toContainEqual({ level: 'error', event: 'rules_lost', activeVersion: 1 })
    expect(site.limiter.active.kind).toBe('lost')
    await site.edit((rules) => withEntry('blocks', rules, { asn: 1 }))
    await site.afterRefresh()
    // Version 1 again, but of other rules.
    expect(site.limiter.active.version).toBe(1)
    expect(await site.kind()).toBe('admitted')
  })

  test('and follows others that have the number of those that were lost, and says that these are lost', async () => {
    const site = new Site()
    await site.edit(block)
    expect([await site.kind(), await site.kind('b')]).toEqual(['blocked', 'admitted'])
    // Nobody has read the store between its loss and the next edit.
    site.documents = new MemoryDocuments(() => site.nowMs)
    const other = { by: 'token', digest: createDigest(undefined)(['token', 'b']) }
    await site.edit((rules) => withEntry('blocks', rules, other))
    await site.afterRefresh()
    expect([await site.kind(), await site.kind('b')]).toEqual(['admitted', 'blocked'])
    expect(site.log).toContainEqual({ level: 'error', event: 'rules_lost', activeVersion: 1, version: 1 })
  })

  test('and takes nothing that is remembered of lost policies for what others of their number and name allow', async () => {
    const site = new Site({ RATE_LIMITS: 'off', POLICIES: [{ name: 'api', limits: '9/1m' }] })
    const push = (limits: string) => site.edit((rules) => ({ ...rules, policies: [{ name: 'api', limits }] }))
    await push('1/1m')
    expect([await site.kind(), await site.kind()]).toEqual(['admitted', 'limited'])
    site.documents = new MemoryDocuments(() => site.nowMs)
    await push('3/1m')
    await site.afterRefresh()
    expect([await site.kind(), await site.kind(), await site.kind()]).toEqual(['admitted', 'admitted', 'limited'])
  })

  test.each([
    ['by what it sends', TOKEN],
    ['by its digest alone', { digest: TOKEN.digest }],
  ])('and does not hold under MODE=shadow %s: it logs whom it would block', async (_, target) => {
    const site = new Site({ MODE: 'shadow' })
    await site.edit((rules) => withEntry('blocks', rules, target))
    expect(await site.kind()).toBe('admitted')
    expect(site.log).toContainEqual({ level: 'warn', event: 'shadow_blocked', status: 403, reason: undefined })
  })
})

describe('LiveRulesEngine with a copy in its place', () => {
  const readCopy = ({ cached }: Site) => JSON.parse([...cached.values()].join())
  const writeCopy = (site: Site, copy: object) => {
    site.cached.set('https://gateway.test/_sluice/secret', JSON.stringify({ ...readCopy(site), ...copy }))
  }

  test('reads the store once for all isolates, until the copy is a refresh old', async () => {
    const [site, other] = [new Site({}, { hasCache: true }), new Site({}, { hasCache: true })]
    await site.edit(block)
    expect(await site.kind()).toBe('blocked')
    await site.settle()
    for (const [url, text] of site.cached) other.cached.set(url, text)
    expect(await other.kind()).toBe('blocked')
    expect([site.reads, other.reads]).toEqual([1, 0])
    await other.afterRefresh()
    expect([other.reads, readCopy(other).readAtMs]).toEqual([1, START_MS + REFRESH_MS])
  })

  test('reads the store if the copy is behind, of another history, of a later clock, or no copy at all', async () => {
    for (const copy of [
      { document: { version: 0, id: '' } },
      { document: { version: 1, id: 'another' } },
      { readAtMs: START_MS + 1e6 },
      { document: null },
    ]) {
      const site = new Site({}, { hasCache: true })
      await site.edit(block)
      await site.kind()
      await site.settle()
      writeCopy(site, copy)
      site.nowMs += REFRESH_MS / 2
      await site.kind('somebody')
      await site.settle()
      expect(site.reads).toBe(2)
      expect(await site.kind()).toBe('blocked')
    }
  })

  test('never goes back to a copy that it found while another request read a newer version', async () => {
    const site = new Site({}, { hasCache: true })
    await site.edit(block)
    await site.kind()
    await site.settle()
    await site.edit((rules) => withoutEntry('blocks', rules, TOKEN))
    const document = await site.documents.read()
    await site.edit(block)
    site.nowMs += REFRESH_MS
    const { promise, resolve: answer } = Promise.withResolvers<void>()
    site.answer = promise
    await site.kind('first')
    const look = Promise.withResolvers<void>()
    site.look = look.promise
    writeCopy(site, { document, readAtMs: site.nowMs })
    site.nowMs += REFRESH_MS / 2
    await site.kind('second')
    answer()
    await new Promise((resolve) => setTimeout(resolve))
    look.resolve()
    await site.settle()
    expect(site.limiter.active.version).toBe(3)
    expect(site.log.filter(({ event }) => event === 'rules_lost')).toEqual([])
  })
})

test('LiveRulesEngine blocks exempt requests too, and calls no store for it', async () => {
  const site = new Site({ EXEMPT: 'GET /healthz' })
  await site.edit(block)
  expect([await site.kind('abc', '/healthz'), await site.kind('other', '/healthz')]).toEqual(['blocked', 'admitted'])
  expect(site.store.size).toBe(0)
})

describe('a limit that is raised', () => {
  const raise = (rules: Rules) => withEntry('overrides', rules, { ...TOKEN, limits: { default: '5/1m' } })

  test('holds at once for a caller whose refusal is remembered', async () => {
    const site = new Site()
    expect([await site.kind(), await site.kind(), await site.kind(), await site.kind()]).toEqual([
      ...['admitted', 'admitted'],
      ...['limited', 'limited'],
    ])
    await site.edit(raise)
    await site.afterRefresh()
    // Two were counted before.
    expect([await site.kind(), await site.kind(), await site.kind()]).toEqual(['admitted', 'admitted', 'admitted'])
    expect(await site.decide()).toMatchObject({ outcome: 'limited', limits: [{ limit: 5, remaining: 0 }] })
  })

  test('holds at once for all callers if it is raised in the policy', async () => {
    const site = new Site({ RATE_LIMITS: 'off', POLICIES: [{ name: 'api', limits: '2/1m' }] })
    expect([await site.kind(), await site.kind(), await site.kind()]).toEqual(['admitted', 'admitted', 'limited'])
    for (const limit of [3, 4]) {
      await site.edit((rules) => ({ ...rules, policies: [{ name: 'api', limits: `${limit}/1m` }] }))
      await site.afterRefresh()
      expect([await site.kind(), await site.kind()]).toEqual(['admitted', 'limited'])
    }
  })

  test.each(['auto', '16'])('and is lowered again, with leases (%s)', async (LEASES) => {
    const site = new Site({ RATE_LIMITS: 'off', POLICIES: [{ name: 'default', limits: '1000/1m' }], LEASES })
    for (let n = 0; n < 200; n++) expect(await site.kind()).toBe('admitted')
    await site.edit((rules) => withEntry('overrides', rules, { ...TOKEN, limits: { default: '100/1m' } }))
    await site.afterRefresh()
    // No permit that was leased under the old limit is spent under the new one.
    expect(await site.kind()).toBe('limited')
    await site.edit((rules) => withEntry('overrides', rules, { ...TOKEN, limits: { default: '2000/1m' } }))
    await site.afterRefresh()
    expect(await site.kind()).toBe('admitted')
  })
})

test('a caller that is kept out for its refusals is let in at once if it is allowed', async () => {
  const site = new Site({ RATE_LIMITS: 'off', POLICIES: [{ name: 'api', limits: '1/1m', penalty: '1h' }] })
  expect([await site.kind(), await site.kind(), await site.kind()]).toEqual(['admitted', 'limited', 'limited'])
  await site.edit((rules) => withEntry('allows', rules, TOKEN))
  await site.afterRefresh()
  expect([await site.kind(), await site.kind()]).toEqual(['admitted', 'admitted'])
})

describe('policies of the rules', () => {
  const tables = [{ name: 'strict', limits: '1/1m', by: 'token' }]

  test('are in force in place of POLICIES, and POLICIES again without them', async () => {
    const site = new Site({ RATE_LIMITS: 'off', POLICIES: [{ name: 'wide', limits: '100/1m' }] })
    expect([await site.kind(), await site.kind()]).toEqual(['admitted', 'admitted'])
    await site.edit((rules) => ({ ...rules, policies: tables }))
    await site.afterRefresh()
    expect([await site.kind(), await site.kind()]).toEqual(['admitted', 'limited'])
    await site.edit((rules) => ({ ...rules, policies: undefined }))
    await site.afterRefresh()
    expect([await site.kind(), await site.kind()]).toEqual(['admitted', 'admitted'])
  })

  test('give back slots that were taken under those before', async () => {
    const policy = { name: 'slots', limits: '1', algorithm: 'concurrency' }
    const site = new Site({ RATE_LIMITS: 'off', POLICIES: [policy] })
    const held = await site.decide()
    if (held.outcome !== 'admitted') throw new Error('expected to be admitted')
    await site.edit((rules) => ({ ...rules, policies: [{ ...policy, slot_ttl: '2m' }] }))
    await site.afterRefresh()
    expect(await site.kind()).toBe('limited')
    await held.hold?.release()
    expect(await site.kind()).toBe('admitted')
  })

  test('settle what was charged under those before', async () => {
    const policy = {
      name: 'units',
      limits: '10/1h',
      algorithm: 'fixed-window',
      cost: 5,
      actual_cost: 'header:x-cost',
      untold: 1,
    }
    const site = new Site({ RATE_LIMITS: 'off', POLICIES: [policy] })
    const charged = await site.decide()
    if (charged.outcome !== 'admitted') throw new Error('expected to be admitted')
    await site.edit((rules) => ({ ...rules, policies: [{ ...policy, cost: 9 }] }))
    await site.afterRefresh()
    expect(await site.kind()).toBe('limited')
    await charged.settlement?.readHead(undefined, undefined)?.settle(() => createReading(1))
    expect(await site.kind()).toBe('admitted')
  })
})

describe('a policy in shadow mode, pushed alongside the active ones,', () => {
  const POLICIES = [{ name: 'wide', limits: '4/1m' }]
  const BEYOND = ['admitted', 'admitted', 'admitted', 'admitted', 'limited']

  async function kindsWith(trial: object, prepare: (site: Site) => void = () => {}) {
    const site = new Site({ RATE_LIMITS: 'off', POLICIES })
    await site.edit((rules) => ({ ...rules, policies: [...POLICIES, { name: 'trial', mode: 'shadow', ...trial }] }))
    await site.kind('somebody')
    prepare(site)
    const kinds = []
    for (const _ of BEYOND) kinds.push(await site.kind())
    return { kinds, site }
  }

  test.each([
    ['if its limits are exceeded', { limits: '1/1m' }, 4],
    ['with a penalty', { limits: '1/1m', penalty: '1h' }, 4],
    ['with a reserve', { limits: '2/1m', reserve: { critical: 0.5 } }, 4],
    ['if its slots are held', { limits: '1', algorithm: 'concurrency' }, 4],
    ['if it counts new identities', { limits: '1/1m', by: 'ip', counts: 'new-identities' }, 1],
    ['if it denies who is missing', { limits: '1/1m', by: 'header:x-account', anonymous: 'deny' }, 5],
  ])('refuses nothing %s, and says what it would have refused', async (_, trial, refusals) => {
    const { kinds, site } = await kindsWith(trial)
    expect(kinds).toEqual(BEYOND)
    const lines = site.log.filter(({ event }) => event === 'shadow_limited')
    expect(lines).toHaveLength(refusals)
    expect(lines[0]?.violated).toEqual([expect.stringMatching(/^trial/)])
  })

  test.each(['local', 'open', 'closed'])(
    'refuses nothing while the store is unavailable (%s)',
    async (on_store_error) => {
      const { kinds, site } = await kindsWith({ limits: '1/1m', on_store_error }, ({ store }) => {
        store.decide = () => Promise.reject(new StoreError('unavailable'))
      })
      expect(kinds).toEqual(BEYOND)
      expect(site.log).toContainEqual(expect.objectContaining({ event: 'store_error' }))
    },
  )

  test('makes no identity new for those that count new ones, and refuses once it is enforced', async () => {
    const policies = [
      { name: 'users', limits: '9/1h' },
      { name: 'signups', limits: '3/1h', by: 'ip', counts: 'new-identities' },
    ]
    const trial = { name: 'trial', limits: '1/1h' }
    const site = new Site({ RATE_LIMITS: 'off', POLICIES: policies })
    const users = ['a', 'b', 'c']
    const decide = async () => Promise.all(users.map((user) => site.kind(user)))
    expect(await decide()).toEqual(['admitted', 'admitted', 'admitted'])
    await site.edit((rules) => ({ ...rules, policies: [{ ...trial, mode: 'shadow' }, ...policies] }))
    site.nowMs += REFRESH_MS
    expect([await site.kind('d'), await site.kind('e')]).toEqual(['limited', 'limited'])
    expect(await decide()).toEqual(['admitted', 'admitted', 'admitted'])
    await site.edit((rules) => ({ ...rules, policies: [trial, ...policies] }))
    site.nowMs += REFRESH_MS
    await site.settle()
    await site.kind('a')
    await site.settle()
    expect(await decide()).toEqual(['limited', 'limited', 'limited'])
  })
})
