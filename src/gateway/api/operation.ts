/** An operation of a JSON API as its document describes it, and the errors of its input. */
import type * as v from 'valibot'
import { createProblem, type Problem, type ProblemParts } from '../../http/response/problem.ts'

// biome-ignore lint/suspicious/noExplicitAny: whatever it takes and makes
export type Schema<Output = unknown> = v.GenericSchema<any, Output>

export interface ApiOperation<Input = unknown, Answer = unknown> {
  /** POST if the input is a body. */
  readonly method: 'GET' | 'POST'
  /** Below the URL of its API. */
  readonly path: `/${string}`
  readonly summary: string
  readonly description?: string
  /** Its input: an object in the body or, where it names no caller, of the parameters in the URL. */
  readonly body?: Schema<Input>
  readonly query?: Schema<Input>
  /** Missing if only the status counts. */
  readonly answer?: Schema<Answer>
  /** The operation runs again and again, at this interval, and each answer is an event of a stream. */
  readonly everyMs?: number
}

export class OperationError extends Error {
  override readonly name = 'OperationError'
  readonly problem: Problem

  constructor(...parts: ProblemParts) {
    const problem = createProblem(...parts)
    super(problem.title)
    this.problem = problem
  }
}

export class InputError extends OperationError {
  /** @param path names in the body @param problem holds nothing that was sent */
  constructor(path: readonly string[], problem: string) {
    super('invalid_input', 400, `${path.join('.') || 'The body'}: ${problem}.`, {
      extensions: { pointer: toPointer(path) },
    })
  }
}

/** A JSON pointer as a fragment (RFC 6901 §6), as in the example of RFC 9457 §3. */
export function toPointer(path: readonly (string | number)[]): string {
  return `#${path.map((key) => `/${`${key}`.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')}`
}
