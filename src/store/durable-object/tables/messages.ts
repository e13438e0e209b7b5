/** What is asked of an object that keeps something other than the state of one key. All of it is plain data. */
import type { DocumentWrite } from '../../documents.ts'

export type TableCall =
  | readonly ['documents', 'read', knownVersion: number | null]
  | readonly ['documents', 'readVersion', version: number]
  | readonly ['documents', 'history']
  | readonly ['documents', 'write', DocumentWrite]
