import type { ObjectDatabase } from '../limit-object.ts'
import { DocumentTable } from './document-table.ts'
import type { TableCall } from './messages.ts'

/** What an object answers that keeps something other than the state of one key. */
export function answer(call: TableCall, sql: ObjectDatabase, nowMs: number): unknown {
  const documents = new DocumentTable(sql)
  switch (call[1]) {
    case 'read':
      return documents.read(call[2])
    case 'readVersion':
      return documents.readVersion(call[2])
    case 'history':
      return documents.history()
    case 'write':
      return documents.write(call[2], nowMs)
  }
}
