/** Reads the caller or target of an operation from options and arguments. */
import type { InferOutput } from 'valibot'
import type { leftOut } from '../../admin/answers.ts'
import { type Caller, createRequest, type Pairs } from '../../request/caller/caller.ts'
import { createTargetInput, type NamedKind } from '../../rules/target.ts'
import { CommandError } from '../command-error.ts'
import type { Terminal } from '../terminal.ts'
import { CALLER_OPTION_NAMES, findOptionName, type OperatorOptions, readParts } from './options.ts'

export const CALLER_HINT = `A token, ${CALLER_OPTION_NAMES}, --route or --digest.`
export const TARGET_HINT = 'For example a token, --ip 203.0.113.7, --header x-api-key=k-123 or --digest.'

/** Reads the `caller` of a body. @throws {CommandError} if none or too much is given @throws {CallerError} */
export async function readCaller(terminal: Terminal, options: OperatorOptions, token?: string): Promise<object> {
  const { digest, ...named } = readParts('caller', options)
  const caller: Caller = { ...(token !== undefined && { token: await readToken(terminal, token) }), ...named }
  const parts = Object.entries(caller)
  if (digest !== undefined) {
    if (parts.length === 0) return { digest }
    throw new CommandError('expected --digest alone: it takes the place of all that identifies a caller')
  }
  if (parts.length === 0) throw new CommandError('expected a caller', { hint: CALLER_HINT })
  // It throws before a connection is made.
  createRequest(caller)
  return Object.fromEntries(parts.map(([part, value]) => [part, Array.isArray(value) ? toRecord(part, value) : value]))
}

/** Reads the `who` of a body. @returns undefined if none is given @throws {CommandError} if more than one is given */
export async function readTarget(
  terminal: Terminal,
  options: OperatorOptions,
  token?: string,
): Promise<object | undefined> {
  const parts = { ...(token !== undefined && { token }), ...readParts('who', options) }
  const [[way, value] = [], ...others] = Object.entries(parts)
  if (way === undefined) return undefined
  const [pair, ...more] = Array.isArray(value) ? (value as Pairs) : []
  if (others.length > 0 || more.length > 0) {
    throw new CommandError('expected one way to say who is meant', { hint: TARGET_HINT })
  }
  if (token !== undefined) return { token: await readToken(terminal, token) }
  return pair ? createTargetInput(way as NamedKind, ...pair) : parts
}

/** Adds which options would help. */
export function explainLeftOut(policies: InferOutput<typeof leftOut>) {
  return policies.map(({ policy, why, needs }) => {
    const option = needs === 'token' ? 'by its token' : `with ${findOptionName(`caller.${needs}`)}`
    return { policy, why: needs === null ? why : `${why}: name it ${option}` }
  })
}

/** A token from standard input stays out of the history of the shell. */
async function readToken(terminal: Terminal, token: string): Promise<string> {
  return token === '-' ? terminal.readInput() : token
}

/** @throws {CommandError} */
function toRecord(part: string, pairs: Pairs): Readonly<Record<string, string>> {
  if (new Set(pairs.map(([name]) => name)).size === pairs.length) return Object.fromEntries(pairs)
  throw new CommandError(`${findOptionName(`caller.${part}`)}: expected each name once`)
}
