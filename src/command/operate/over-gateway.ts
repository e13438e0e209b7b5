/** Asks the admin API of a gateway. */
import { readVariables } from '../../http/config/variables.ts'
import { NOT_SERVED } from '../../http/response/problem.ts'
import { CommandError, findCause } from '../command-error.ts'
import { createOperator, explainProblem, type Operator, type ProblemBody } from './operator.ts'

const ANSWER_TIMEOUT_MS = 20_000

const URL_HINT = 'For example https://edge.example.com; where ADMIN_HOST is set, that host.'

/** @param gateway URL, of which only the origin counts @throws {CommandError} @throws {OptionError} */
export function operateOverGateway(gateway: string, token: unknown, signal: AbortSignal): Operator {
  const { origin, host } = readUrl(gateway)
  if (typeof token !== 'string' || token === '') {
    throw new CommandError('ADMIN_TOKEN is not set', {
      hint: 'It is the token of the operators that the Worker has as a secret: set it in the shell or in .dev.vars.',
    })
  }
  readVariables({ ADMIN_TOKEN: token })
  return createOperator({
    name: host,
    counterpart: { gateway: host },
    origin,
    token,
    explain: (response, problem) => explainRefusal(host, response, problem),
    async fetch(request) {
      const ends = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_TIMEOUT_MS)])
      // A redirect would send the token to another host.
      return fetch(request, { redirect: 'manual', signal: ends }).catch((error: unknown) => {
        const message = `the gateway at ${host} cannot be reached (${findCause(error)})`
        throw new CommandError(message, { exit: 'redis', hint: 'Is the URL right, and the Worker deployed?' })
      })
    },
  })
}

function readUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol === 'https:') return url
  if (url?.protocol !== 'http:') throw new CommandError('--gateway: expected the URL of a gateway', { hint: URL_HINT })
  if (/^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url.hostname)) return url
  throw new CommandError('--gateway: expected https://, so that nobody reads the token on its way', { hint: URL_HINT })
}

function explainRefusal(host: string, { status, headers }: Response, problem: ProblemBody | undefined): CommandError {
  if (typeof problem?.detail !== 'string') {
    const answer = status === 200 ? 'something other than what this version of sluice knows' : `${status}`
    const message = `${host} answered ${answer}, and not as the admin API of a gateway`
    return new CommandError(message, { exit: 'redis', hint: URL_HINT })
  }
  if (problem.detail === NOT_SERVED.detail) {
    const hint = 'It needs the secret ADMIN_TOKEN; where ADMIN_HOST is set, it answers at that host alone.'
    return new CommandError(`the admin API is disabled at ${host}`, { exit: 'redis', hint })
  }
  if (status === 401) {
    const hint = 'That of the shell goes before the one in .dev.vars. After ten attempts in a minute, it refuses all.'
    return new CommandError(`${host} rejected ADMIN_TOKEN`, { exit: 'redis', hint })
  }
  const error = explainProblem({ ...problem, status })
  if (status !== 429 && status < 500) return error
  const seconds = headers.get('Retry-After')
  const hint = seconds === null ? 'Try again later.' : `Try again in ${seconds} s.`
  return new CommandError(`the gateway at ${host} says: ${error.message}`, { exit: 'redis', hint })
}
