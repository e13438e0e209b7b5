import type { Operation } from '../../admin/operation.ts'
import type { Problem } from '../../http/problem.ts'
import { CommandError } from '../command-error.ts'
import { CALLER_HINT, TARGET_HINT } from './callers.ts'
import { findOptionName } from './options.ts'

/** Runs operations of the admin API over a database or a gateway. */
export interface Operator {
  /** Host and port, for messages. */
  readonly name: string
  /** The name in the form of `--json`. */
  readonly place: { readonly redis: string } | { readonly gateway: string }
  /** @throws {CommandError} @throws {StoreError} */
  run<Answer>(operation: Operation<unknown, Answer, unknown>, input?: OperationInput): Promise<Answer>
  close(): Promise<void>
}

/** Unchecked input of an operation. */
export interface OperationInput {
  readonly body?: object
  readonly query?: Readonly<Record<string, string>>
}

/** A problem of the API (RFC 9457). `place` is a path in the body, with dots between names. */
export type ProblemBody = Pick<Problem, 'status' | 'detail'> & { readonly place?: string | undefined }

/** Names options of the command in place of names in a body. */
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
