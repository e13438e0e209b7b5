import { expect, test } from 'vitest'
import { type Deed, deedsAbout, noteDeed } from '../../../src/rules/journal.ts'
import { MAX_DOCUMENT_BYTES } from '../../../src/store/documents.ts'
import { MemoryDocuments } from '../../../src/store/memory/memory-documents.ts'
import { StoreError } from '../../../src/store/store.ts'

const deed = (at: number, more: Partial<Deed> = {}): Deed => ({
  ...{ atMs: at, by: 'ann', what: `block ${at}`, why: '', digests: ['A'] },
  ...more,
})

test('deedsAbout() tells those about a caller, the latest first, by any digest that it goes by', async () => {
  const journal = new MemoryDocuments(() => 0)
  expect(await deedsAbout(journal, new Set(['A']))).toEqual([])
  const [first, other, both] = [deed(1), deed(2, { digests: ['B'] }), deed(3, { digests: ['C', 'B'] })]
  for (const each of [first, other, both]) await noteDeed(journal, each)
  expect(await deedsAbout(journal, new Set(['A']))).toEqual([first])
  expect(await deedsAbout(journal, new Set(['B', 'A']))).toEqual([both, other, first])
  expect(await journal.history()).toHaveLength(1)
})

test('noteDeed() loses nothing of those who write at once', async () => {
  const journal = new MemoryDocuments(() => 0)
  await Promise.all(Array.from({ length: 8 }, (_, at) => noteDeed(journal, deed(at))))
  expect(await deedsAbout(journal, new Set(['A']))).toHaveLength(8)
})

test('noteDeed() keeps the last 500, which fit into a document however long their words are', async () => {
  const journal = new MemoryDocuments(() => 0)
  const long = 'ö'.repeat(10_000)
  const digests = ['A', ...Array.from({ length: 50 }, () => 'B'.repeat(22))]
  for (let at = 0; at < 502; at++) await noteDeed(journal, deed(at, { by: long, what: long, why: long, digests }))
  const kept = await deedsAbout(journal, new Set(['A']))
  expect([kept.length, kept[0]?.atMs, kept.at(-1)?.atMs]).toEqual([500, 501, 2])
  const { text = '' } = (await journal.read()) ?? {}
  expect(new TextEncoder().encode(text).length).toBeLessThan(MAX_DOCUMENT_BYTES)
})

test('noteDeed() leaves what was done as it is if the store does not answer', async () => {
  const journal = new MemoryDocuments(() => 0)
  journal.read = () => Promise.reject(new StoreError('away'))
  await expect(noteDeed(journal, deed(1))).resolves.toBeUndefined()
})
