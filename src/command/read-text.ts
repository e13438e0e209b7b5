import { readFileSync } from 'node:fs'
import { CommandError } from './command-error.ts'

/** @param name of the file, for messages @throws {CommandError} */
export function readText(path: string, name: string, hint?: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new CommandError(`${name} cannot be read (${code})`, hint === undefined ? {} : { hint })
  }
}
