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

/** Reads an integer of a body, or of a parameter in the URL. */
export function defineCount(max: number) {
  const expected = `an integer from 1 to ${max}`
  const inUrl = v.pipe(v.string(), v.regex(/^\d{1,15}$/), v.transform(Number))
  return v.pipe(
    v.union([v.number(), inUrl], expected),
    v.integer(expected),
    v.minValue(1, expected),
    v.maxValue(max, expected),
  )
}
