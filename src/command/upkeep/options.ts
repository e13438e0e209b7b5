/** Options of the subcommands that go through all keys. */
import { InvalidArgumentError, Option } from '@commander-js/extra-typings'
import { DURATION_EXPECTED, parseDuration } from '../../model/limits.ts'
import { MOST_KEYS } from './pace.ts'

export const MATCH = new Option(
  '-m, --match <pattern>',
  'keys, as SCAN matches them: * ? [a-z], and \\ before these signs',
).makeOptionMandatory()
export const COUNT = new Option(
  '--count <keys>',
  `keys of one SCAN and of one script, at most ${MOST_KEYS}; left out, as many as the server does in half a millisecond`,
).argParser(parseCount)
export const DRY_RUN = new Option('--dry-run', 'change nothing, and tell what would be changed')
export const SAMPLE = new Option('--sample', 'the same for some 10,000 keys, with an estimate of the whole')
export const YES = new Option('-y, --yes', 'do not ask; needed for a pattern that names no part of a key, such as *')
export const RESUME = new Option('--resume', 'go on where the last run of the same command was stopped or killed')

export function parseTtl(text: string): number {
  const ms = parseDuration(text)
  if (ms === undefined) throw new InvalidArgumentError(`Expected ${DURATION_EXPECTED}.`)
  return ms
}

function parseCount(text: string): number {
  const count = Number(text)
  if (Number.isInteger(count) && count >= 1 && count <= MOST_KEYS) return count
  throw new InvalidArgumentError(`Expected an integer from 1 to ${MOST_KEYS}.`)
}
