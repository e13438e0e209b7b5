import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { expect, inject, test } from 'vitest'
import { createDigest } from '../../src/core/runtime/digest.ts'
import { type DocumentStore, KEPT_VERSIONS, type VersionId } from '../../src/core/store/documents.ts'
import { MemoryDocuments } from '../../src/core/store/memory/memory-tables.ts'
import { RedisDocuments } from '../../src/core/store/redis/documents/redis-documents.ts'
import { adaptNodeRedis } from '../../src/core/store/redis/tcp-clients.ts'
import { NO_RULES, parseRules, type Rules, readRules } from '../../src/gateway/rules/document.ts'
import { dropEnded, withEntry, withoutEntry } from '../../src/gateway/rules/edit-rules.ts'
import { editRules, readCurrentRules } from '../support/edit-rules.ts'
import { expectProperty } from '../support/property.ts'
import { connectRedis } from '../support/redis-client.ts'

const redis = await connectRedis(inject('redisPort'))
redis.unref()

const START_MS = Date.UTC(2026, 0, 1)
const NOTE = { actor: 'test', comment: 'law' }

type Change = (rules: Rules) => Rules

/** Few enough that edits meet each other. */
const caller = fc.constantFrom('a', 'b').map((name) => ({ by: 'token', digest: createDigest(undefined)([name]) }))
const network = fc.constantFrom('203.0.113.0/24', '2001:db8::/32').map((cidr) => ({ cidr }))
const place = fc.constantFrom({ country: 'DE' }, { asn: 64500 })
const until = fc.option(
  fc.integer({ min: 0, max: 20 }).map((hours) => new Date(START_MS + hours * 3_600_000).toISOString()),
  { nil: undefined },
)
const lasting = fc.record({ reason: fc.constantFrom(undefined, 'because'), until })
const said = fc.constantFrom(
  { unlimited: true as const },
  { multiplier: 2.5, policies: ['default'] },
  { limits: { default: '9/1m' } },
)
const tables = fc.constantFrom(undefined, [{ name: 'p', limits: '1/1m' }], [{ name: 'q', limits: '2/1s, 3/1m' }])

const change: fc.Arbitrary<Change> = fc.oneof(
  fc.tuple(fc.oneof(caller, network, place), lasting).map(
    ([target, rest]): Change =>
      (rules) =>
        withEntry('blocks', rules, { ...target, ...rest }),
  ),
  fc.oneof(caller, network, place).map(
    (target): Change =>
      (rules) =>
        withoutEntry('blocks', rules, target),
  ),
  fc.tuple(fc.oneof(caller, network), lasting).map(
    ([target, rest]): Change =>
      (rules) =>
        withEntry('allows', rules, { ...target, ...rest }),
  ),
  fc.oneof(caller, network).map(
    (target): Change =>
      (rules) =>
        withoutEntry('allows', rules, target),
  ),
  fc.tuple(caller, said, lasting).map(
    ([target, what, rest]): Change =>
      (rules) =>
        withEntry('overrides', rules, { ...target, ...what, ...rest }),
  ),
  caller.map(
    (target): Change =>
      (rules) =>
        withoutEntry('overrides', rules, target),
  ),
  tables.map(
    (policies): Change =>
      (rules) => ({ ...rules, policies }),
  ),
)

test('after any edits, the rules are valid, name each target once, and hold nothing that is over', () =>
  expectProperty(
    fc.asyncProperty(fc.array(change, { maxLength: 30 }), async (changes) => {
      let rules = NO_RULES
      for (const [index, edit] of changes.entries()) {
        const nowMs = START_MS + index * 3_600_000
        rules = dropEnded(edit(rules), nowMs)
        expect(readRules(rules)).toEqual(readRules(JSON.parse(JSON.stringify(rules))))
        for (const entries of [rules.blocks, rules.allows, rules.overrides]) {
          const targets = entries.map(({ by, digest, cidr, country, asn }) => `${[by, digest, cidr, country, asn]}`)
          expect(new Set(targets).size).toBe(targets.length)
          expect(entries.every(({ until: end }) => end === undefined || Date.parse(end) > nowMs)).toBe(true)
        }
      }
    }),
    400,
  ))

test('Redis and memory keep the same versions through any edits and rollbacks', () =>
  expectProperty(
    fc.asyncProperty(fc.array(fc.oneof(change, fc.integer({ min: 1, max: 30 })), { maxLength: 30 }), async (steps) => {
      const places = [new MemoryDocuments(() => START_MS), redisDocuments(randomUUID())]
      let version = 0
      for (const step of steps) {
        const edit = (documents: DocumentStore) =>
          typeof step === 'number' ? rollBack(documents, step) : editRules(documents, step, { nowMs: START_MS })
        const [one, other] = await Promise.all(places.map(edit))
        expect(one).toEqual(other)
        const [now] = await Promise.all(places.map(readCurrentRules))
        expect(now?.version).toBe(one?.changed ? version + 1 : version)
        version = now?.version ?? 0
      }
      const [first, second] = await Promise.all(places.map((documents) => documents.readHistory()))
      expect(first?.map(({ version: kept }) => kept)).toEqual(second?.map(({ version: kept }) => kept))
      expect(first?.length).toBe(Math.min(version, KEPT_VERSIONS))
    }),
    60,
  ))

const step = fc.oneof(
  { weight: 3, arbitrary: fc.constant({ does: 'write' } as const) },
  { weight: 2, arbitrary: fc.constant({ does: 'read' } as const) },
  // To nothing, or, as a replica that lags becomes the primary, to what there was some writes ago.
  { weight: 2, arbitrary: fc.record({ does: fc.constant('lose' as const), writes: fc.integer({ min: 1, max: 4 }) }) },
)

test('whatever is lost between reads and edits, who reads has the newest rules, and who has others cannot write', () =>
  expectProperty(
    fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
      const key = `${randomUUID()}:rules`
      const documents = new RedisDocuments({ client: adaptNodeRedis(redis), key, timeoutMs: 60_000 })
      const before: Record<string, string>[] = []
      let known: (VersionId & { readonly text: string }) | undefined
      const follow = async () => {
        known = (await documents.read(known)) ?? known
        expect(known).toEqual(await documents.read())
      }
      for (const [at, { does, ...rest }] of steps.entries()) {
        if (does === 'read') await follow()
        if (does === 'write') {
          before.push(await redis.hGetAll(key))
          const now = await documents.read()
          const write = { text: `{"n":${at}}`, ...NOTE }
          if (known && known.id !== now?.id) {
            const late = await documents.write({ ...write, expectedVersion: known.version, expectedId: known.id })
            expect(late.kind).toBe('conflict')
          }
          await documents.write({ ...write, expectedVersion: now?.version ?? 0, expectedId: now?.id })
        }
        if ('writes' in rest) {
          const kept = before.at(-rest.writes) ?? {}
          await redis.del(key)
          if (Object.keys(kept).length > 0) await redis.hSet(key, kept)
        }
      }
      await follow()
    }),
    100,
  ))

test('of writers that write at once, each edit is made exactly once', async () => {
  const key = randomUUID()
  const digests = Array.from({ length: 8 }, (_, index) => createDigest(undefined)([String(index)]))
  const edited = await Promise.all(
    digests.map((digest) =>
      editRules(redisDocuments(key), (rules) => withEntry('blocks', rules, { by: 'token', digest })),
    ),
  )
  expect(edited.every(({ changed }) => changed)).toBe(true)
  expect(edited.map(({ version }) => version).sort((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
  const { rules } = await readCurrentRules(redisDocuments(key))
  expect(rules.blocks.map(({ digest }) => digest).sort()).toEqual(digests.sort())
})

test('an edit that makes the rules invalid leaves the old ones', async () => {
  const documents = redisDocuments(randomUUID())
  await editRules(documents, (rules) => withEntry('blocks', rules, { asn: 64500 }))
  const edit = editRules(documents, (rules) => withEntry('blocks', rules, { cidr: '203.0.113.7/24' }))
  const detail = 'rules.blocks[1].cidr: expected a network without bits beyond its prefix'
  await expect(edit).rejects.toMatchObject({ problem: { status: 400, detail: expect.stringContaining(detail) } })
  expect(await readCurrentRules(documents)).toMatchObject({ version: 1, rules: { blocks: [{ asn: 64500 }] } })
  const late = editRules(documents, () => NO_RULES, { expectedVersion: 0 })
  await expect(late).rejects.toMatchObject({ problem: { status: 409, extensions: { version: 1 } } })
})

function redisDocuments(key: string): DocumentStore {
  return new RedisDocuments({ client: adaptNodeRedis(redis), key: `${key}:rules`, timeoutMs: 60_000 })
}

async function rollBack(documents: DocumentStore, version: number) {
  const stored = await documents.readVersion(version)
  return stored && editRules(documents, () => parseRules(stored.text), { replacesAll: true })
}
