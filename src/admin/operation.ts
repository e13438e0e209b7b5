import type * as v from 'valibot'
import type { Config, Environment } from '../config/load-config.ts'
import type { Engine } from '../engine/engine.ts'
import type { RulesEngine } from '../engine/rules-engine.ts'
import type { UpstreamHealth } from '../engine/shedding/upstream-health.ts'
import type { Health } from '../gateway/health.ts'
import type { Problem } from '../http/problem.ts'
import type { Store } from '../model/store.ts'
import type { Counters } from '../store/counters.ts'

/** What operations work on. */
export interface Operated {
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
  readonly counters: Counters | undefined
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
}

// biome-ignore lint/suspicious/noExplicitAny: whatever it takes and makes
type Schema<Output = unknown> = v.GenericSchema<any, Output>

/** One thing that operators can ask for, as the document of the API has it. */
export interface Operation<Body = unknown, Answer = unknown, Query = unknown> {
  readonly method: 'GET' | 'POST'
  /** Below `/_sluice/admin`. */
  readonly path: `/${string}`
  readonly summary: string
  readonly description?: string
  /** Of its JSON; left out: it has none. */
  readonly body?: Schema<Body>
  /** Of an object of the parameters in its URL, which name no caller; left out: it has none. */
  readonly query?: Schema<Query>
  readonly answer: Schema<Answer>
  /** It is done again and again, with so many milliseconds between, and each answer is an event of a stream. */
  readonly everyMs?: number
  run(operated: Operated, asked: Asked<Body, Query>): Promise<Answer>
}

/** What was sent, as the schemas have read it. */
export interface Asked<Body = unknown, Query = unknown> {
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

/** @param place names in the body, with dots between @param expected holds nothing that was sent */
export function badInput(place: string, expected: string): Problem {
  return {
    status: 400,
    title: 'Bad Request',
    detail: `${place || 'The body'}: expected ${expected}.`,
    extensions: { place },
  }
}
