import { describe, expect, test } from 'vitest'
import { type DocumentStore, KEPT_VERSIONS, MAX_DOCUMENT_BYTES, NO_DOCUMENT } from '../../src/core/store/documents.ts'
import { DOCUMENTS } from '../support/stores.ts'

const NOTE = { actor: 'Zoë', comment: 'a “test”\nof 2 lines' }
const WRITTEN = { id: expect.any(String), atMs: expect.any(Number) }

describe.each(Object.entries(DOCUMENTS))('%s', (_name, open) => {
  const fresh = () => open(`${crypto.randomUUID()}:rules`)
  const write = (documents: DocumentStore, expectedVersion: number, text = `{"n":${expectedVersion}}`) =>
    documents.write({ text, expectedVersion, ...NOTE })

  test('read() reports no document before the first is written', async () => {
    const documents = fresh()
    expect(await documents.read()).toEqual(NO_DOCUMENT)
    expect(await documents.read(NO_DOCUMENT)).toBeUndefined()
    // As after the database was emptied.
    expect(await documents.read({ version: 7, id: 'seven' })).toEqual(NO_DOCUMENT)
    expect(await documents.readVersion(1)).toBeUndefined()
    expect(await documents.readHistory()).toEqual([])
  })

  test('read() gives back the newest version as it was written, and nothing to who has it', async () => {
    const documents = fresh()
    const text = JSON.stringify({ reason: 'Grüße, 日本, \u2028 "quoted" \\ 🙂', list: [], n: 1.5 })
    const written = await documents.write({ text, expectedVersion: 0, ...NOTE })
    expect(written).toEqual({ kind: 'written', version: 1, id: expect.any(String), atMs: expect.any(Number) })
    const { atMs, id } = written as Extract<typeof written, { kind: 'written' }>
    expect(Math.abs(atMs - Date.now())).toBeLessThan(600_000)
    expect(await documents.read()).toEqual({ version: 1, id, atMs, ...NOTE, text })
    expect(await documents.read(NO_DOCUMENT)).toEqual({ version: 1, id, atMs, ...NOTE, text })
    expect(await documents.read({ version: 1, id })).toBeUndefined()
    expect(await documents.read({ version: 2, id })).toMatchObject({ version: 1, text })
  })

  test('write() refuses who has not seen the newest version', async () => {
    const documents = fresh()
    expect(await write(documents, 1)).toEqual({ kind: 'conflict', version: 0 })
    await write(documents, 0)
    expect(await write(documents, 0, '{"late":true}')).toEqual({ kind: 'conflict', version: 1 })
    expect(await documents.read()).toMatchObject({ version: 1, text: '{"n":0}' })
    expect(await documents.readHistory()).toHaveLength(1)
  })

  test.each(['', 'null', '[]', '"text"', '{"open":', '{} {}', '7'])(
    'write() refuses what is no object: %s',
    async (text) => {
      const documents = fresh()
      await write(documents, 0)
      expect(await write(documents, 1, text)).toEqual({ kind: 'malformed', version: 1 })
      expect(await documents.read()).toMatchObject({ version: 1, text: '{"n":0}' })
    },
  )

  test('write() takes documents up to their bound in bytes, and leaves the old one if one is longer', async () => {
    const documents = fresh()
    const frame = '{"a":""}'.length
    // Two bytes each.
    const longest = `{"a":"${'é'.repeat((MAX_DOCUMENT_BYTES - frame) / 2)}"}`
    expect(await write(documents, 0, longest)).toMatchObject({ kind: 'written', version: 1 })
    expect(await write(documents, 1, longest.replace('a', 'ab'))).toEqual({ kind: 'too-large', version: 1 })
    const { text, version } = (await documents.read()) ?? NO_DOCUMENT
    expect([version, text === longest]).toEqual([1, true])
  })

  test('write() keeps the last versions, and readHistory() reports them, newest first', async () => {
    const documents = fresh()
    const count = KEPT_VERSIONS + 3
    for (let version = 0; version < count; version++) await write(documents, version)
    const history = await documents.readHistory()
    expect(history.map(({ version }) => version)).toEqual(
      Array.from({ length: KEPT_VERSIONS }, (_, index) => count - index),
    )
    expect(history[0]).toEqual({ version: count, ...WRITTEN, ...NOTE })
    expect(await documents.readVersion(count - KEPT_VERSIONS)).toBeUndefined()
    expect(await documents.readVersion(4)).toMatchObject({ version: 4, ...NOTE, text: '{"n":3}' })
    expect(await documents.readVersion(count + 1)).toBeUndefined()
  })

  // As after a loss of all that was written, or of the last versions, when others were written since.
  test.each([1, 2, 5])('a version is not taken for another one with its number, %i, of other writes', async (count) => {
    const [lost, documents] = [fresh(), fresh()]
    for (let version = 0; version < count; version++) {
      await write(lost, version)
      await write(documents, version)
    }
    const known = (await lost.read()) ?? NO_DOCUMENT
    expect(known).toMatchObject({ version: count, id: expect.stringMatching(/./) })
    expect(await lost.read(known)).toBeUndefined()
    const newest = await documents.read(known)
    expect(newest).toMatchObject({ version: count, text: `{"n":${count - 1}}` })
    expect(newest?.id).not.toBe(known.id)
    const late = { text: '{"late":true}', expectedVersion: count, ...NOTE }
    expect(await documents.write({ ...late, expectedId: known.id })).toEqual({ kind: 'conflict', version: count })
    expect(await documents.write({ ...late, expectedId: newest?.id })).toMatchObject({ kind: 'written' })
    expect((await documents.readHistory()).map(({ id }) => id)).toContain(newest?.id)
  })

  test('write() keeps only as many versions as it is given', async () => {
    const documents = fresh()
    for (let version = 0; version < 3; version++) {
      await documents.write({ text: `{"n":${version}}`, expectedVersion: version, ...NOTE, kept: 1 })
    }
    expect(await documents.readHistory()).toEqual([{ version: 3, ...WRITTEN, ...NOTE }])
    expect(await documents.read()).toMatchObject({ version: 3, text: '{"n":2}' })
  })

  test('write() keeps the beginning of a long note', async () => {
    const documents = fresh()
    await documents.write({ text: '{}', expectedVersion: 0, actor: 'x'.repeat(9_000), comment: '' })
    expect(await documents.readHistory()).toEqual([{ version: 1, ...WRITTEN, actor: 'x'.repeat(500), comment: '' }])
  })

  test('write() lets exactly one of several writers succeed at a time', async () => {
    const key = `${crypto.randomUUID()}:rules`
    for (let version = 0; version < 5; version++) {
      const all = await Promise.all(Array.from({ length: 8 }, (_, n) => write(open(key), version, `{"by":${n}}`)))
      const winners = all.flatMap(({ kind }, n) => (kind === 'written' ? [n] : []))
      expect(winners).toHaveLength(1)
      expect(all.filter(({ kind }) => kind === 'conflict')).toHaveLength(7)
      expect(await open(key).read()).toMatchObject({ version: version + 1, text: `{"by":${winners[0]}}` })
    }
  })
})
