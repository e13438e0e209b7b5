import type * as v from 'valibot'
import type { Config, Environment } from '../config/load-config.ts'
import { OptionError } from '../config/option-error.ts'
import type { Engine } from '../engine/engine.ts'
import type { RulesEngine } from '../engine/rules-engine.ts'
import type { UpstreamHealth } from '../engine/upstream-health.ts'
import type { Health } from '../gateway/health.ts'
import { type Problem, retryAfter, TEMPORARY_REDUCED_CAPACITY } from '../http/problem.ts'
import { type Store, StoreError } from '../model/store.ts'
import { CallerError } from '../request/caller/caller-in-text.ts'
import type { StatisticsStore } from '../store/counters.ts'

/** What operations work on. */
export interface AdminContext {
  readonly config: Config
  /** What the configuration was read from. */
  readonly env: Environment
  /** Undefined: no rules are followed. */
  readonly governed: Pick<RulesEngine, 'documents' | 'journal' | 'state'> | undefined
  /** Asked directly: an operator is to see what it holds, and not what stands in for it. */
  readonly store: Pick<Store, 'decide' | 'learn'>
  readonly engine: Pick<Engine, 'forget'>
  readonly readHealth: () => Promise<Health>
  /** Undefined: what answers is not watched. */
  readonly upstream: Pick<UpstreamHealth, 'level'> | undefined
  /** Undefined: nothing is counted. */
  readonly counters: StatisticsStore | undefined
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
}

// biome-ignore lint/suspicious/noExplicitAny: whatever it takes and makes
export type Schema<Output = unknown> = v.GenericSchema<any, Output>

/** One thing that operators can ask for, as the document of the API has it. */
export interface Operation<Body = unknown, Answer = unknown, Query = unknown> {
  readonly method: 'GET' | 'POST'
  /** Below `/_sluice/admin`. */
  readonly path: `/${string}`
  readonly summary: string
  readonly description?: string
  /** Left out: the request has no body. */
  readonly body?: Schema<Body>
  /** An object of the parameters in the URL, which name no caller; left out: there are none. */
  readonly query?: Schema<Query>
  readonly answer: Schema<Answer>
  /** It is done again and again, with so many milliseconds between, and each answer is an event of a stream. */
  readonly everyMs?: number
  run(context: AdminContext, input: OperationInput<Body, Query>): Promise<Answer>
}

/** What was sent, as the schemas have read it. */
export interface OperationInput<Body = unknown, Query = unknown> {
  readonly body: Body
  readonly query: Query
}

/** Leaves it as it is, with the types of what it takes and answers. */
export function defineOperation<Body, Answer, Query>(
  operation: Operation<Body, Answer, Query>,
): Operation<Body, Answer, Query> {
  return operation
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

/** Something in the body or the query is not as expected. */
export class InputError extends OperationError {
  /** @param place names in the body, with dots between @param expected holds nothing that was sent */
  constructor(place: string, expected: string) {
    const detail = `${place || 'The body'}: expected ${expected}.`
    super({ status: 400, title: 'Bad Request', detail, extensions: { place } })
  }
}

export function createNotFound(detail: string): OperationError {
  return new OperationError({ status: 404, title: 'Not Found', detail })
}

/** What an operator is told of an error. @throws what is a mistake of the program */
export function toProblem(error: unknown): Problem {
  if (error instanceof OperationError) return error.problem
  if (error instanceof CallerError) {
    // It says what was expected, or what cannot be.
    const place = error.part === undefined ? 'caller' : `caller.${error.part}`
    return { status: 400, title: 'Bad Request', detail: `${place}: ${error.message}.`, extensions: { place } }
  }
  if (error instanceof OptionError) {
    const detail = `The rules that are stored make no sense: ${error.message}.`
    return { status: 500, title: 'Rules Unreadable', detail }
  }
  if (error instanceof StoreError) return createStoreProblem(error)
  throw error
}

export function createStoreProblem({ message }: StoreError): Problem {
  return {
    type: TEMPORARY_REDUCED_CAPACITY,
    status: 503,
    title: 'Service Unavailable',
    detail: `The store gave no answer: ${message}.`,
    headers: retryAfter(1_000),
  }
}
