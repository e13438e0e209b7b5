import type * as v from 'valibot'
import type { Config } from '../config/load-config.ts'
import type { Decider } from '../decide/decider.ts'
import type { Health } from '../gateway/health.ts'
import type { Problem } from '../http/problem.ts'
import type { UpstreamHealth } from '../limiter/shedding/upstream-health.ts'
import type { Store } from '../store/store.ts'

/** What operations work on. */
export interface Operated {
  readonly config: Config
  /** Asked directly: an operator is to see what it holds, and not what stands in for it. */
  readonly store: Pick<Store, 'decide'>
  readonly decider: Pick<Decider, 'forget'>
  readonly readHealth: () => Promise<Health>
  /** Undefined: what answers is not watched. */
  readonly upstream: Pick<UpstreamHealth, 'level'> | undefined
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
}

// biome-ignore lint/suspicious/noExplicitAny: whatever it takes and makes
type Schema<Output = unknown> = v.GenericSchema<any, Output>

/** One thing that operators can ask for, as the document of the API has it. */
export interface Operation<Body = unknown, Answer = unknown> {
  readonly method: 'GET' | 'POST'
  /** Below `/_sluice/admin`. */
  readonly path: `/${string}`
  readonly summary: string
  readonly description?: string
  /** Of its JSON; left out: it has none. */
  readonly body?: Schema<Body>
  readonly answer: Schema<Answer>
  /** It is done again and again, with so many milliseconds between, and each answer is an event of a stream. */
  readonly everyMs?: number
  run(operated: Operated, body: Body): Promise<Answer>
}

export function defineOperation<Body, Answer>(operation: Operation<Body, Answer>): Operation {
  return operation as unknown as Operation
}

/** The operation cannot be done as it was asked for. */
export class OperationError extends Error {
  override readonly name = 'OperationError'
  readonly problem: Problem

  constructor(problem: Problem) {
    super(problem.title)
    this.problem = problem
  }
}

/** @param place names in the body, with dots between @param expected holds nothing that was sent */
export function badInput(place: string, expected: string): Problem {
  return {
    status: 400,
    title: 'Bad Request',
    detail: `${place || 'The body'}: expected ${expected}.`,
    extensions: { place },
  }
}
