/** Reads values of options that several subcommands have. */
import { Option } from '@commander-js/extra-typings'
import * as v from 'valibot'
import { DURATION_EXPECTED, parseDuration } from '../core/model/limits.ts'
import { OptionError } from '../core/options/option-error.ts'
import { parsed } from '../http/config/values.ts'
import { CommandError } from './command-error.ts'

/** Reads a duration into milliseconds. */
export const duration = parsed(DURATION_EXPECTED, parseDuration)

/** A number in a text, as the first group of a pattern. */
export function createNumberSchema(pattern: RegExp, expected: string) {
  return v.pipe(
    v.string(),
    v.regex(pattern, expected),
    v.transform((text) => Number(pattern.exec(text)?.[1])),
  )
}

export function createOption<Flags extends string, Schema extends v.GenericSchema>(
  flags: Flags,
  description: string,
  schema: Schema,
) {
  return new Option(flags, description).argParser(readBy(flags, schema))
}

export function createListOption<Flags extends string, Schema extends v.GenericSchema>(
  flags: Flags,
  description: string,
  schema: Schema,
) {
  return new Option(flags, description).argParser(collect(readBy(flags, schema)))
}

function readBy<Schema extends v.GenericSchema>(flags: string, schema: Schema) {
  return (text: string): v.InferOutput<Schema> => {
    const { success, output, issues } = v.safeParse(schema, text)
    if (success) return output
    const [name] = /--[\w-]+/.exec(flags) ?? []
    throw new CommandError(new OptionError(`${name}`, issues[0].message, text).message)
  }
}

export function collect<Value>(read: (text: string) => Value) {
  return (text: string, before: readonly Value[] = []): readonly Value[] => [...before, read(text)]
}
