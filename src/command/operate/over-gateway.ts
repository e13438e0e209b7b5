import * as v from 'valibot'
import type { Operation } from '../../admin/operation.ts'
import { environment, toOptionError } from '../../config/variables.ts'
import { NOT_SERVED } from '../../http/problem.ts'
import { CommandError } from '../command-error.ts'
import type { Operator, Sent } from './operator.ts'
import { problemError, type Told } from './problem-error.ts'

/** An operation may ask the database several times. */
const ANSWER_TIMEOUT_MS = 20_000

const URL_HINT = 'For example https://edge.example.com; where ADMIN_HOST is set, that host.'

const ADMIN_TOKEN = v.pick(environment, ['ADMIN_TOKEN'])

/**
 * Asks the admin API of a gateway.
 * @param gateway its URL, of which only the origin counts @param token ADMIN_TOKEN, as it is known here
 * @throws {CommandError} if there is no such URL, or no token @throws {OptionError} if no gateway can have that token
 */
export function operateOverGateway(gateway: string, token: unknown): Operator {
  const { origin, host } = readUrl(gateway)
  if (typeof token !== 'string' || token === '') {
    throw new CommandError('ADMIN_TOKEN is not set', {
      hint: 'It is the token of the operators that the Worker has as a secret: set it in the shell or in .dev.vars.',
    })
  }
  const read = v.safeParse(ADMIN_TOKEN, { ADMIN_TOKEN: token })
  if (!read.success) throw toOptionError(read.issues[0])
  const send = async ({ method, path }: Operation, { body, query = {} }: Sent): Promise<Response> => {
    const url = new URL(`/_sluice/admin${path}`, origin)
    url.search = `${new URLSearchParams(query)}`
    try {
      return await fetch(url, {
        method,
        headers: { Authorization: `Bearer ${token}`, ...(body && { 'Content-Type': 'application/json' }) },
        ...(body && { body: JSON.stringify(body) }),
        // The token is for this host alone.
        redirect: 'manual',
        signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
      })
    } catch (error) {
      throw unreachable(host, error)
    }
  }
  return {
    name: host,
    shown: { gateway: host },
    async close() {},
    async ask<Answer>(operation: Operation<unknown, Answer, unknown>, sent: Sent = {}) {
      const response = await send(operation, sent)
      const value = parse(await response.text().catch(() => ''))
      if (response.status !== 200) throw refused(host, response, value)
      if (!isAnswer(operation, value)) throw noAdmin(host, 'something other than what this version of sluice knows')
      return value as Answer
    },
  }
}

/** @throws {CommandError} */
function readUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol === 'https:') return url
  if (url?.protocol !== 'http:') throw new CommandError('--gateway: expected the URL of a gateway', { hint: URL_HINT })
  if (/^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url.hostname)) return url
  throw new CommandError('--gateway: expected https://, so that nobody reads the token on its way', { hint: URL_HINT })
}

/** Whether it can be read as an answer of the operation; a newer gateway may tell more. */
function isAnswer({ answer }: Operation, value: unknown): boolean {
  const { issues = [] } = v.safeParse(answer, value)
  return issues.every(({ expected }) => expected === 'never')
}

function refused(host: string, { status, headers }: Response, value: unknown): CommandError {
  const problem = headers.get('Content-Type')?.startsWith('application/problem+json') ? (value as Told) : undefined
  if (typeof problem?.detail !== 'string') return noAdmin(host, `${status}`)
  if (problem.detail === NOT_SERVED.detail) {
    return new CommandError(`the gateway at ${host} answers no operators`, {
      exit: 'redis',
      hint: 'It needs the secret ADMIN_TOKEN; where ADMIN_HOST is set, it answers at that host alone.',
    })
  }
  if (status === 401) {
    return new CommandError(`the gateway at ${host} has another ADMIN_TOKEN`, {
      exit: 'redis',
      hint: 'That of the shell goes before the one in .dev.vars. After ten attempts in a minute, it refuses all.',
    })
  }
  const error = problemError({ ...problem, status })
  if (status !== 429 && status < 500) return error
  const seconds = headers.get('Retry-After')
  const hint = seconds === null ? undefined : `Try again in ${seconds} s.`
  return new CommandError(`the gateway at ${host} says: ${error.message}`, {
    exit: 'redis',
    ...(hint !== undefined && { hint }),
  })
}

function noAdmin(host: string, answered: string): CommandError {
  return new CommandError(`${host} answered ${answered}, and not as the admin API of a gateway`, {
    exit: 'redis',
    hint: URL_HINT,
  })
}

function unreachable(host: string, error: unknown): CommandError {
  const { name, cause } = error as { readonly name: string; readonly cause?: { code?: string; message?: string } }
  const code = name === 'TimeoutError' ? 'no answer in time' : (cause?.code ?? cause?.message ?? name)
  return new CommandError(`the gateway at ${host} cannot be reached (${code})`, {
    exit: 'redis',
    hint: 'Is the URL right, and the Worker deployed?',
  })
}

/** @returns undefined for what is no JSON */
function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
