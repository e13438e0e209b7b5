import type { ObjectDatabase } from '../limit-object.ts'

export function hasTable(sql: ObjectDatabase, name: string): boolean {
  return [...sql.exec("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", name)].length > 0
}
