import type { NoTarget } from '../request/target.ts'
import { type Problem, problemResponse } from './problem.ts'

/** For a request of which nobody can say what it asks for. */
export function invalidTarget(reason: NoTarget): Response {
  return problemResponse(NO_TARGET[reason])
}

const NO_TARGET: Readonly<Record<NoTarget, Problem>> = {
  malformed: { status: 400, title: 'Bad Request', detail: 'Target and Host of the request make no URL.' },
  'too-long': { status: 414, title: 'URI Too Long', detail: 'The URL of the request is too long.' },
}
