/** Runs operations through the admin API, wherever it answers, and explains its problems in words of the command. */
import * as v from 'valibot'
import type { NamedKind } from '../../core/model/identity-source.ts'
import type { skipped } from '../../gateway/admin/answers.ts'
import type { Operation } from '../../gateway/admin/operation.ts'
import { type Caller, createRequest, type Pairs } from '../../gateway/callers/caller.ts'
import { createTargetInput } from '../../gateway/rules/target.ts'
import type { Problem } from '../../http/response/problem.ts'
import { CommandError } from '../command-error.ts'
import type { Terminal } from '../terminal.ts'
import { CALLER_OPTION_NAMES, findOptionName, type OperatorOptions, readParts } from './options.ts'

const CALLER_HINT = `A token, ${CALLER_OPTION_NAMES}, --route or --digest.`
const TARGET_HINT = 'For example a token, --ip 203.0.113.7, --header x-api-key=k-123 or --digest.'

export interface Operator {
  readonly name: string
  readonly counterpart: { readonly redis: string } | { readonly gateway: string }
  run<Answer>(operation: Operation<unknown, Answer>, input?: object): Promise<Answer>
}

/** A problem of the API (RFC 9457). `pointer` is a JSON pointer into the body. */
export type ProblemBody = Pick<Problem, 'code' | 'status' | 'detail'> & { readonly pointer?: string }

/** The admin API of a gateway, or that of this process over a database. */
export interface AdminApi extends Pick<Operator, 'name' | 'counterpart'> {
  readonly origin: string
  readonly token: string
  readonly fetch: (request: Request) => Promise<Response>
  /** @param problem undefined if it answered neither with a problem nor as the operation does */
  readonly explain: (response: Response, problem: ProblemBody | undefined) => CommandError
}

export function createOperator({ name, counterpart, origin, token, fetch, explain }: AdminApi): Operator {
  return {
    name,
    counterpart,
    async run<Answer>({ method, path, answer }: Operation<unknown, Answer>, input: object = {}) {
      const isPost = method === 'POST'
      const url = new URL(`/_sluice/admin${path}`, origin)
      if (!isPost) url.search = `${new URLSearchParams(input as Readonly<Record<string, string>>)}`
      const headers = { Authorization: `Bearer ${token}`, ...(isPost && { 'Content-Type': 'application/json' }) }
      const body = isPost ? JSON.stringify(input) : null
      const response = await fetch(new Request(url, { method, headers, body }))
      const value: unknown = await response.json().catch(() => undefined)
      if (response.status === 200) {
        const { issues = [] } = v.safeParse(answer, value)
        // A newer gateway may add members.
        if (issues.every(({ expected }) => expected === 'never')) return value as Answer
      }
      const isProblem = response.headers.get('Content-Type')?.startsWith('application/problem+json')
      throw explain(response, isProblem ? (value as ProblemBody) : undefined)
    },
  }
}

/** Names options of the command in place of names in a body. */
export function explainProblem({ status, detail, pointer = '' }: Omit<ProblemBody, 'code'>): CommandError {
  const prefix = `${pointer.slice('#/'.length).replaceAll('/', '.')}: `
  const isPlaced = pointer !== '' && detail.startsWith(prefix)
  const option = findOptionName(pointer)
  const words = (isPlaced ? detail.slice(prefix.length) : detail).replace(/\.$/, '')
  const sentence = words.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase())
  const hint = findHint(status, pointer)
  return new CommandError(isPlaced && option !== undefined ? `${option}: ${words}` : sentence, {
    exit: status >= 500 ? 'redis' : 'misuse',
    ...(hint !== undefined && { hint }),
  })
}

function findHint(status: number, pointer: string): string | undefined {
  if (status === 409) return 'Look at it, and try again.'
  if (/^#\/target\b/.test(pointer)) return TARGET_HINT
  return pointer === '#/caller' ? CALLER_HINT : undefined
}

/** Reads the `caller` of a body. @throws {CommandError} if none or too much is given @throws {CallerError} */
export async function readCaller(terminal: Terminal, options: OperatorOptions, token?: string): Promise<object> {
  const { digest, ...named } = readParts('caller', options)
  const caller: Caller = { ...(token !== undefined && { token: await readToken(terminal, token) }), ...named }
  const parts = Object.entries(caller)
  if (digest !== undefined) {
    if (parts.length === 0) return { digest }
    throw new CommandError('expected --digest alone, without other attributes')
  }
  if (parts.length === 0) throw new CommandError('expected a caller', { hint: CALLER_HINT })
  // It throws before a connection is made.
  createRequest(caller)
  return Object.fromEntries(parts.map(([part, value]) => [part, Array.isArray(value) ? toRecord(part, value) : value]))
}

/** Reads the `target` of a body. @returns undefined if none is given @throws {CommandError} if more than one is given */
export async function readTargetOptions(
  terminal: Terminal,
  options: OperatorOptions,
  token?: string,
): Promise<object | undefined> {
  const parts = { ...(token !== undefined && { token }), ...readParts('target', options) }
  const [[kind, value] = [], ...others] = Object.entries(parts)
  if (kind === undefined) return undefined
  const [pair, ...more] = Array.isArray(value) ? (value as Pairs) : []
  if (others.length > 0 || more.length > 0) {
    throw new CommandError('expected exactly one target', { hint: TARGET_HINT })
  }
  if (token !== undefined) return { token: await readToken(terminal, token) }
  return pair ? createTargetInput(kind as NamedKind, ...pair) : parts
}

/** Says of policies that were skipped why, and by which option the caller could have been named to them. */
export function formatSkipped(policies: v.InferOutput<typeof skipped>): readonly string[] {
  return policies.map(({ policy, reason, needs }) => {
    const option = needs === 'token' ? 'by its token' : `with ${findOptionName(`#/caller/${needs}`)}`
    return `${policy}: skipped, ${reason}${needs === null ? '' : `: name it ${option}`}`
  })
}

/** A token from standard input stays out of the history of the shell. */
async function readToken(terminal: Terminal, token: string): Promise<string> {
  return token === '-' ? terminal.readInput() : token
}

function toRecord(part: string, pairs: Pairs): Readonly<Record<string, string>> {
  if (new Set(pairs.map(([name]) => name)).size === pairs.length) return Object.fromEntries(pairs)
  throw new CommandError(`${findOptionName(`#/caller/${part}`)}: expected each name once`)
}
