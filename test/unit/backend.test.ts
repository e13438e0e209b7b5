/// <reference types="@cloudflare/vitest-plugin/types" />
import { env } from 'cloudflare:workers'
import { expect, inject, test } from 'vitest'
import type { Backend } from '../../src/core/store/backend.ts'
import { findPeriodStart } from '../../src/core/store/counters.ts'
import { openObjectBackend } from '../../src/core/store/durable-object/durable-object-store.ts'
import { openMemoryBackend } from '../../src/core/store/memory/memory-store.ts'
import { openUpstashBackend } from '../../src/core/store/redis/upstash-backend.ts'
import { createCharge, take } from '../support/charges.ts'

const timeoutMs = 60_000

const BACKENDS: Record<string, () => Backend> = {
  memory: () => openMemoryBackend(() => Date.now()),
  'durable-object': () => openObjectBackend(env.LIMITS, timeoutMs),
  redis: () => {
    const database = { url: inject('redisRestUrl'), token: inject('redisRestToken') }
    return openUpstashBackend({ ...database, algorithms: ['sliding-window'], timeoutMs })
  },
}

test.each(Object.entries(BACKENDS))('%s: limits, documents and counters live in one place', async (kind, open) => {
  const backend = open()
  const keyPrefix = crypto.randomUUID()
  const charge = createCharge('sliding-window', [{ limit: 1, windowMs: 60_000 }])
  expect(backend.limits.kind).toBe(kind)
  const decisions = [await backend.limits.decide(take([charge])), await backend.limits.decide(take([charge]))]
  expect(decisions.map(({ granted }) => granted)).toEqual([1, 0])
  const key = `${keyPrefix}:charges`
  const written = { text: '{"n":1}', expectedVersion: 0, actor: 'test', comment: 'test' }
  expect(await (await backend.documents(key)).write(written)).toMatchObject({ kind: 'written', version: 1 })
  expect(await (await backend.documents(key)).read()).toMatchObject({ version: 1, text: '{"n":1}' })
  const counters = await backend.counters({ keyPrefix, timeoutMs })
  const minute = {
    startMs: findPeriodStart('minute', Date.now()),
    counts: new Map([['requests', 2]]),
    sketches: new Map(),
  }
  await counters.add({ source: 'a', number: 1, minutes: [minute] })
  expect(await counters.readTotals()).toEqual(new Map([['requests', 2]]))
})
