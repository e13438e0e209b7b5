import { expect, test } from 'vitest'
import { StoreError } from '../../../src/core/model/store.ts'
import { MAX_DOCUMENT_BYTES } from '../../../src/core/store/documents.ts'
import { MemoryDocuments } from '../../../src/core/store/memory/memory-tables.ts'
import { type AuditEntry, appendAudit, readAudit } from '../../../src/gateway/rules/audit-log.ts'

const entry = (at: number, more: Partial<AuditEntry> = {}): AuditEntry => ({
  ...{ atMs: at, actor: 'ann', action: `block ${at}`, comment: '', digests: ['A'] },
  ...more,
})

test('readAudit() answers what was done about a caller, the latest first, by any digest that it goes by', async () => {
  const auditLog = new MemoryDocuments(() => 0)
  expect(await readAudit(auditLog, new Set(['A']))).toEqual([])
  const [first, other, both] = [entry(1), entry(2, { digests: ['B'] }), entry(3, { digests: ['C', 'B'] })]
  for (const each of [first, other, both]) await appendAudit(auditLog, each)
  expect(await readAudit(auditLog, new Set(['A']))).toEqual([first])
  expect(await readAudit(auditLog, new Set(['B', 'A']))).toEqual([both, other, first])
  expect(await auditLog.readHistory()).toHaveLength(1)
})

test('appendAudit() loses nothing of those who write at once', async () => {
  const auditLog = new MemoryDocuments(() => 0)
  await Promise.all(Array.from({ length: 8 }, (_, at) => appendAudit(auditLog, entry(at))))
  expect(await readAudit(auditLog, new Set(['A']))).toHaveLength(8)
})

test.each([
  ['ö', 500],
  // Three bytes each in UTF-8, and six in JSON.
  ['界', 444],
  ['\u0001', 250],
])('appendAudit() drops the oldest of 500, or of as many as fit into a document (%j)', async (sign, most) => {
  const auditLog = new MemoryDocuments(() => 0)
  const long = sign.repeat(200)
  const digests = ['A', ...Array.from({ length: 19 }, () => 'B'.repeat(22))]
  const full = Array.from({ length: most }, (_, age) =>
    entry(-age, { actor: long, action: long, comment: long, digests }),
  )
  await auditLog.write({ text: JSON.stringify({ audit: full }), expectedVersion: 0, actor: '', comment: '' })
  for (let at = 1; at <= 30; at++) {
    await appendAudit(
      auditLog,
      entry(at, { actor: `${long}more`, action: long, comment: long, digests: [...digests, 'C'] }),
    )
  }
  const kept = await readAudit(auditLog, new Set(['A']))
  expect(kept.map(({ atMs }) => atMs)).toEqual(kept.map((_, age) => 30 - age))
  expect(kept[0]).toEqual({ ...full[0], atMs: 30 })
  expect(Math.abs(kept.length - most)).toBeLessThan(10)
  const { text = '' } = (await auditLog.read()) ?? {}
  expect(new TextEncoder().encode(text).length).toBeLessThanOrEqual(MAX_DOCUMENT_BYTES)
})

test('readAudit() skips whatever else is stored', async () => {
  const auditLog = new MemoryDocuments(() => 0)
  const text = JSON.stringify({ audit: [null, 7, { digests: 'A' }, entry(1)] })
  await auditLog.write({ text, expectedVersion: 0, actor: '', comment: '' })
  expect(await readAudit(auditLog, new Set(['A']))).toEqual([entry(1)])
})

test('appendAudit() cuts a note between two characters', async () => {
  const auditLog = new MemoryDocuments(() => 0)
  await appendAudit(auditLog, entry(1, { comment: `x${'🙂'.repeat(200)}` }))
  const [noted] = await readAudit(auditLog, new Set(['A']))
  expect(noted?.comment).toBe(`x${'🙂'.repeat(99)}\ufffd`)
})

test('appendAudit() leaves what was done as it is if the store does not answer', async () => {
  const auditLog = new MemoryDocuments(() => 0)
  auditLog.read = () => Promise.reject(new StoreError('unavailable'))
  await expect(appendAudit(auditLog, entry(1))).resolves.toBeUndefined()
})
