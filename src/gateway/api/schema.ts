/** Schemas of what the admin API takes and answers. */
import * as v from 'valibot'
import { mapNames } from '../../core/runtime/lists.ts'

/** Whole numbers from 0. */
export const units = v.pipe(v.number(), v.integer(), v.minValue(0))

export function defineUnitsBy<Name extends string>(names: readonly Name[]) {
  return v.strictObject(mapNames(names, () => units))
}

/** Adds what the OpenAPI document says of it. */
export function describe<Schema extends v.GenericSchema>(schema: Schema, text: string): Schema {
  // A pipe has all that its first schema has.
  return v.pipe(schema, v.description(text)) as unknown as Schema
}
