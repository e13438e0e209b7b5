/** Reads values of options that several subcommands have. */
import { Option } from '@commander-js/extra-typings'
import { DURATION_EXPECTED, parseDuration } from '../core/model/limits.ts'
import { OptionError } from '../core/options/option-error.ts'
import { parsed, type Reader, read } from '../core/options/readers.ts'
import { CommandError } from './command-error.ts'

/** Reads a duration into milliseconds. */
export const duration = parsed(DURATION_EXPECTED, parseDuration)

/** Reads a number in a text, the first group of a pattern. */
export function createNumberReader(pattern: RegExp, expected: string): Reader<number, string> {
  return parsed(expected, (text) => {
    const [, number] = pattern.exec(text) ?? []
    return number === undefined ? undefined : Number(number)
  })
}

export function createOption<Flags extends string, Value>(
  flags: Flags,
  description: string,
  reader: Reader<Value, unknown>,
) {
  return new Option(flags, description).argParser(readBy(flags, reader))
}

export function createListOption<Flags extends string, Value>(
  flags: Flags,
  description: string,
  reader: Reader<Value, unknown>,
) {
  return new Option(flags, description).argParser(collect(readBy(flags, reader)))
}

function readBy<Value>(flags: string, reader: Reader<Value, unknown>) {
  const [name = ''] = /--[\w-]+/.exec(flags) ?? []
  return (text: string): Value => {
    try {
      return read(reader, text, [name])
    } catch (error) {
      throw error instanceof OptionError ? new CommandError(error.message) : error
    }
  }
}

export function collect<Value>(read: (text: string) => Value) {
  return (text: string, before: readonly Value[] = []): readonly Value[] => [...before, read(text)]
}
