import type { ObjectDatabase } from '../limit-object.ts'
import { CounterTable } from './counter-table.ts'
import { DocumentTable } from './document-table.ts'
import type { TableCall } from './messages.ts'

/** What an object answers that keeps something other than the state of one key. */
export function answer(call: TableCall, sql: ObjectDatabase, nowMs: number): unknown {
  return call[0] === 'documents'
    ? answerDocuments(call, new DocumentTable(sql), nowMs)
    : answerCounters(call, new CounterTable(sql, nowMs))
}

function answerDocuments(
  call: Extract<TableCall, readonly ['documents', ...unknown[]]>,
  table: DocumentTable,
  nowMs: number,
): unknown {
  switch (call[1]) {
    case 'read':
      return table.read(call[2])
    case 'readVersion':
      return table.readVersion(call[2])
    case 'history':
      return table.history()
    case 'write':
      return table.write(call[2], nowMs)
  }
}

function answerCounters(call: Extract<TableCall, readonly ['counters', ...unknown[]]>, table: CounterTable): unknown {
  switch (call[1]) {
    case 'add':
      table.add(call[2])
      return null
    case 'read':
      return table.read(call[2], call[3], call[4])
    case 'totals':
      return table.totals()
  }
}

/** Deletes what nobody reads any more. @returns when there will be more of that; undefined if nothing is left */
export function sweep(sql: ObjectDatabase, nowMs: number): number | undefined {
  return new CounterTable(sql, nowMs).sweep()
}
