import type { Operation } from '../../admin/operation.ts'
import type { Problem } from '../../http/problem.ts'
import { CommandError } from '../command-error.ts'
import { CALLER_HINT, TARGET_HINT } from './callers.ts'
import { findOptionName } from './options.ts'

/** Runs the operations of the admin API, whose answers are the same wherever they are run. */
export interface Operator {
  /** Host and port of where they are run, to be shown. */
  readonly name: string
  /** The same, as `--json` has it. */
  readonly place: { readonly redis: string } | { readonly gateway: string }
  /** @throws {CommandError} that says in one line what is wrong @throws {StoreError} */
  run<Answer>(operation: Operation<unknown, Answer, unknown>, input?: OperationInput): Promise<Answer>
  close(): Promise<void>
}

/** The input of an operation, before it is checked. */
export interface OperationInput {
  readonly body?: object
  /** Parameters of the URL, which name no caller. */
  readonly query?: Readonly<Record<string, string>>
}

/** Members of a problem of the API (RFC 9457); the place has names in the body, with dots between. */
export type ProblemBody = Pick<Problem, 'status' | 'detail'> & { readonly place?: string | undefined }

/** The error for a problem, with the options of the command in place of the names in a body. */
export function explainProblem({ status, detail, place = '' }: ProblemBody): CommandError {
  const prefix = `${place}: `
  const isPlaced = place !== '' && detail.startsWith(prefix)
  const option = findOptionName(place)
  const words = (isPlaced ? detail.slice(prefix.length) : detail).replace(/\.$/, '')
  const sentence = words.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase())
  const hint = findHint(status, place)
  return new CommandError(isPlaced && option !== undefined ? `${option}: ${words}` : sentence, {
    exit: status >= 500 ? 'redis' : 'misuse',
    ...(hint !== undefined && { hint }),
  })
}

function findHint(status: number, place: string): string | undefined {
  if (status === 409) return 'Look at it, and try again.'
  if (/^who\b/.test(place)) return TARGET_HINT
  return place === 'caller' ? CALLER_HINT : undefined
}
