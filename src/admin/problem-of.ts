import { OptionError } from '../config/option-error.ts'
import { type Problem, retryAfter, TEMPORARY_REDUCED_CAPACITY } from '../http/problem.ts'
import { StoreError } from '../model/store.ts'
import { CallerError } from '../request/caller/caller-in-text.ts'
import { OperationError } from './operation.ts'

/** What an operator is told of an error. @throws what is a mistake of the program */
export function problemOf(error: unknown): Problem {
  if (error instanceof OperationError) return error.problem
  if (error instanceof CallerError) {
    // It says what was expected, or what cannot be.
    const place = error.part === undefined ? 'caller' : `caller.${error.part}`
    return { status: 400, title: 'Bad Request', detail: `${place}: ${error.message}.`, extensions: { place } }
  }
  if (error instanceof OptionError) {
    return {
      status: 500,
      title: 'Rules Unreadable',
      detail: `The rules that are stored make no sense: ${error.message}.`,
    }
  }
  if (!(error instanceof StoreError)) throw error
  return {
    type: TEMPORARY_REDUCED_CAPACITY,
    status: 503,
    title: 'Service Unavailable',
    detail: `The store gave no answer: ${error.message}.`,
    headers: retryAfter(1_000),
  }
}
