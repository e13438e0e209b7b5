import { expect, test } from 'vitest'
import { StoreError } from '../../src/core/model/store.ts'
import type { DocumentStore } from '../../src/core/store/documents.ts'
import { MemoryDocuments } from '../../src/core/store/memory/memory-tables.ts'
import { copyDocuments } from '../../src/gateway/rules/copied-documents.ts'

const NOTE = { actor: 'test', comment: 'test' }

function subject(copy: DocumentStore = new MemoryDocuments(() => 0)) {
  const documents = new MemoryDocuments(() => 0)
  const lines: object[] = []
  const copied = copyDocuments(documents, copy, (level, fields) => lines.push({ level, ...fields }))
  return { documents, copy, copied, lines }
}

test('copyDocuments() copies what it writes, under the versions of the copy', async () => {
  const { copied, copy } = subject()
  await copy.write({ text: '{"old":true}', expectedVersion: 0, ...NOTE })
  await copy.write({ text: '{"old":1}', expectedVersion: 1, ...NOTE })
  expect(await copied.write({ text: '{"n":1}', expectedVersion: 0, ...NOTE })).toMatchObject({ version: 1 })
  expect(await copied.read()).toMatchObject({ version: 1, text: '{"n":1}' })
  expect(await copy.read()).toMatchObject({ version: 3, text: '{"n":1}', ...NOTE })
  // A refused one changes neither.
  expect(await copied.write({ text: '{"n":2}', expectedVersion: 0, ...NOTE })).toMatchObject({ kind: 'conflict' })
  expect(await copy.read()).toMatchObject({ version: 3 })
})

test('copyDocuments() copies what others have written after it was read, once', async () => {
  const { copied, copy, documents } = subject()
  await documents.write({ text: '{"n":1}', expectedVersion: 0, ...NOTE })
  await copied.read()
  // Nobody who reads waits for the copy.
  expect(await copy.read()).toMatchObject({ version: 0 })
  for (let i = 0; i < 3; i++) await copied.afterRead()
  expect(await copy.read()).toMatchObject({ version: 1, text: '{"n":1}' })
})

test('copyDocuments() leaves the copy where there is nothing to copy', async () => {
  const { copied, copy } = subject()
  await copy.write({ text: '{"n":1}', expectedVersion: 0, ...NOTE })
  await copied.read()
  await copied.afterRead()
  expect(await copy.read()).toMatchObject({ version: 1, text: '{"n":1}' })
})

test('copyDocuments() goes on while the copy fails, and copies later', async () => {
  const memory = new MemoryDocuments(() => 0)
  let isFailing = true
  const copy = Object.assign(Object.create(memory), {
    read: () => (isFailing ? Promise.reject(new StoreError('no answer')) : memory.read()),
    write: (...args: Parameters<DocumentStore['write']>) => memory.write(...args),
  })
  const { copied, lines } = subject(copy)
  expect(await copied.write({ text: '{"n":1}', expectedVersion: 0, ...NOTE })).toMatchObject({ kind: 'written' })
  expect(lines).toEqual([{ level: 'warn', event: 'rules_copy_failed', message: 'no answer' }])
  isFailing = false
  await copied.afterRead()
  expect(await memory.read()).toMatchObject({ text: '{"n":1}' })
})
