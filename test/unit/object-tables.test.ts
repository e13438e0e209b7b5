/// <reference types="@cloudflare/vitest-plugin/types" />
import { evictDurableObject, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { expect, test } from 'vitest'
import { NO_DOCUMENT } from '../../src/store/documents.ts'
import { ObjectDocuments } from '../../src/store/durable-object/tables/object-documents.ts'
import { StoreError } from '../../src/store/store.ts'

const namespace = env.LIMITS
const stubOf = (name: string) => namespace.get(namespace.idFromName(name))
const documentsAt = (key: string) => new ObjectDocuments({ namespace, key, timeoutMs: 60_000 })

function tablesOf(name: string): Promise<unknown[]> {
  return runInDurableObject(stubOf(name), (_, { storage }) =>
    storage.sql
      .exec("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_cf%' ESCAPE '\\'")
      .toArray(),
  )
}

test('a document outlives an eviction, and has no time to live', async () => {
  const key = `${crypto.randomUUID()}:rules`
  await documentsAt(key).write({ text: '{"n":1}', expectedVersion: 0, by: 'test', why: 'test' })
  await evictDurableObject(stubOf(key))
  expect(await documentsAt(key).read()).toMatchObject({ version: 1, text: '{"n":1}' })
  expect(await runInDurableObject(stubOf(key), (_, { storage }) => storage.getAlarm())).toBe(null)
})

test('an object whose document is only looked at keeps nothing', async () => {
  const key = `${crypto.randomUUID()}:rules`
  expect(await documentsAt(key).read()).toEqual(NO_DOCUMENT)
  expect(await documentsAt(key).history()).toEqual([])
  expect(await tablesOf(key)).toEqual([])
})

test('an object that fails, or is silent, is a StoreError that repeats nothing', async () => {
  const failing = { idFromName: () => 0, get: () => ({ fetch: () => Promise.reject(new Error('secret')) }) }
  const silent = { idFromName: () => 0, get: () => ({ fetch: () => new Promise<never>(() => {}) }) }
  for (const namespace of [failing, silent]) {
    const error = await new ObjectDocuments({ namespace, key: 'x', timeoutMs: 10 }).read().catch((error) => error)
    expect(error).toBeInstanceOf(StoreError)
    expect(error.message).not.toContain('secret')
  }
})
