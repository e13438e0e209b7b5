import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { DocumentStore, DocumentWrite, VersionId } from '../../src/core/store/documents.ts'
import { MemoryDocuments } from '../../src/core/store/memory/memory-tables.ts'
import { copyDocuments } from '../../src/gateway/rules/copied-documents.ts'
import { expectProperty } from '../support/property.ts'

const NOTE = { actor: 'test', comment: 'test' }
const ISOLATES = 3

/** Each call and each answer takes as long as the case says. */
function delayed(documents: DocumentStore, scheduler: fc.Scheduler): DocumentStore {
  const later = async <Answer>(call: () => Promise<Answer>): Promise<Answer> => {
    await scheduler.schedule(Promise.resolve())
    return scheduler.schedule(call())
  }
  return Object.assign(Object.create(documents), {
    read: (known?: VersionId) => later(() => documents.read(known)),
    write: (write: DocumentWrite) => later(() => documents.write(write)),
  })
}

test('of isolates that copy at the same time, none makes the copy older, and in the end it is the newest', async () => {
  const actions = fc.array(
    fc.record({ isolate: fc.nat(ISOLATES - 1), does: fc.constantFrom('write', 'read', 'read') }),
    { minLength: 2, maxLength: 12 },
  )
  await expectProperty(
    fc.asyncProperty(fc.scheduler(), actions, async (scheduler, actions) => {
      const [documents, copy] = [new MemoryDocuments(() => 0), new MemoryDocuments(() => 0)]
      const failed: object[] = []
      const open = () =>
        copyDocuments(delayed(documents, scheduler), delayed(copy, scheduler), (_, line) => failed.push(line))
      const isolates = Array.from({ length: ISOLATES }, open)
      const act = async ({ isolate, does }: { isolate: number; does: string }) => {
        const copied = isolates[isolate] as ReturnType<typeof copyDocuments>
        const { version = 0 } = (await copied.read()) ?? {}
        if (does === 'read') return copied.afterRead()
        await copied.write({ text: `{"n":${version + 1}}`, expectedVersion: version, ...NOTE })
      }
      await scheduler.waitFor(Promise.all(actions.map(act)))
      const newest = await documents.read()
      if (newest?.version) {
        await scheduler.waitFor(act({ isolate: 0, does: 'read' }))
        expect((await copy.read())?.text).toBe(newest.text)
      }
      const copies: number[] = []
      for (const { version } of (await copy.readHistory()).toReversed()) {
        copies.push(JSON.parse((await copy.readVersion(version))?.text ?? '').n)
      }
      expect(copies).toEqual(copies.toSorted((a, b) => a - b))
      expect(failed).toEqual([])
    }),
    1_000,
  )
})
