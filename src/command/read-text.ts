/** Reads a text file or standard input. */
import { readFileSync } from 'node:fs'
import { CommandError } from './command-error.ts'

/** @param name of the file, for messages @throws {CommandError} */
export function readText(path: string, name: string, hint?: string): string {
  try {
    // Editors may put a byte order mark before it.
    return readFileSync(path, 'utf8').replace(/^\ufeff/, '')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new CommandError(`${name} cannot be read (${code})`, { hint })
  }
}
