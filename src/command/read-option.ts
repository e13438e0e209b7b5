import * as v from 'valibot'
import { parsed } from '../config/values.ts'
import { DURATION_EXPECTED, parseDuration } from '../model/limits.ts'
import { CommandError } from './command-error.ts'

/** In milliseconds. */
export const duration = parsed(DURATION_EXPECTED, parseDuration)

/** A number in a text, as the first group of a pattern. */
export function numberLike(pattern: RegExp, expected: string) {
  return v.pipe(
    v.string(),
    v.regex(pattern, expected),
    v.transform((text) => Number(pattern.exec(text)?.[1])),
  )
}

/** Makes a parser of the values of an option from a schema, whose messages say what is expected. */
export function readOption<Schema extends v.GenericSchema>(option: string, schema: Schema) {
  return (text: string): v.InferOutput<Schema> => {
    const { success, output, issues } = v.safeParse(schema, text)
    if (success) return output
    throw new CommandError(`${option}: expected ${issues[0].message}, got ${JSON.stringify(text.slice(0, 100))}`)
  }
}

/** Collects the values of an option that may be repeated. */
export function collect<Value>(read: (text: string) => Value) {
  return (text: string, before: readonly Value[] = []): readonly Value[] => [...before, read(text)]
}
