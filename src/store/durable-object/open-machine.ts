import { LimitMachine } from './limit-machine.ts'
import type { ObjectDatabase } from './limit-object.ts'
import { SqlRows } from './sql-rows.ts'

export function openMachine(sql: ObjectDatabase): LimitMachine {
  return new LimitMachine(new SqlRows(sql))
}
