/** Operations of the admin API: what they run on, and what their errors say. */
import type { Engine } from '../../core/engine/engine.ts'
import { type Store, StoreError } from '../../core/model/store.ts'
import { toWholeMs } from '../../core/model/verdict.ts'
import { OptionError } from '../../core/options/option-error.ts'
import type { UpstreamHealth } from '../../core/shedding/upstream-health.ts'
import type { StatisticsStore } from '../../core/store/counters.ts'
import type { Config, Environment } from '../../http/config/load-config.ts'
import { createTemporary, type Problem } from '../../http/response/problem.ts'
import { type ApiOperation, InputError, OperationError, type Schema } from '../api/operation.ts'
import type { Health } from '../app/health.ts'
import { CallerError } from '../callers/caller-in-text.ts'
import type { LiveRulesEngine } from '../rules/live-rules-engine.ts'

export interface AdminContext {
  readonly config: Config
  readonly env: Environment
  /** Undefined: rules are disabled. */
  readonly rulesEngine: Pick<LiveRulesEngine, 'documents' | 'auditLog' | 'look'> | undefined
  /** The store itself: an operator is to see what it holds, and not what stands in for it. */
  readonly store: Pick<Store, 'decide'>
  readonly engine: Pick<Engine, 'delete'>
  readonly readHealth: () => Promise<Health>
  /** Undefined: the upstream is not watched. */
  readonly upstream: Pick<UpstreamHealth, 'level'> | undefined
  /** Undefined: statistics are disabled. */
  readonly counters: StatisticsStore | undefined
  readonly now: () => number
}

/** An operation of the admin API, below `/_sluice/admin`. */
export interface Operation<Input = unknown, Answer = unknown> extends ApiOperation<Input, Answer> {
  readonly answer: Schema<Answer>
  run(context: AdminContext, input: Input): Promise<Answer>
}

export function defineOperation<Input, Answer>(
  operation: Omit<Operation<Input, Answer>, 'method'>,
): Operation<Input, Answer> {
  return { method: operation.body ? 'POST' : 'GET', ...operation }
}

/** @param member of the body that names the caller */
export function locateCallerError({ part, message }: CallerError, member: 'caller' | 'target'): InputError {
  return new InputError(part === undefined ? [member] : [member, part], message)
}

/** Describes an error to an operator. @throws the error if it is a mistake of the program */
export function toProblem(error: unknown): Problem {
  if (error instanceof OperationError) return error.problem
  if (error instanceof CallerError) return locateCallerError(error, 'caller').problem
  if (error instanceof OptionError) {
    const detail = `The stored rules are invalid: ${error.message}. Roll back all of them to an older version, or to 0.`
    return { code: 'rules_invalid', status: 500, title: 'Rules Unreadable', detail }
  }
  if (error instanceof StoreError) return createStoreProblem(error)
  throw error
}

export function createStoreProblem({ message }: StoreError): Problem {
  return createTemporary('store_unavailable', 503, `Store unavailable: ${message}.`, toWholeMs(1_000))
}
