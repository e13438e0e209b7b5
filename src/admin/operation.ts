import * as v from 'valibot'
import type { Config, Environment } from '../config/load-config.ts'
import { OptionError } from '../config/option-error.ts'
import { findRepeatedName } from '../config/policy-keys.ts'
import type { Engine } from '../engine/engine.ts'
import type { UpstreamHealth } from '../engine/upstream-health.ts'
import type { Health } from '../gateway/health.ts'
import { createProblem, createTemporary, type Problem, type ProblemParts } from '../http/problem.ts'
import { type Store, StoreError } from '../model/store.ts'
import { CallerError } from '../request/caller/caller-in-text.ts'
import { readUpTo } from '../request/identity/body.ts'
import type { LiveRulesEngine } from '../rules/live-rules-engine.ts'
import type { StatisticsStore } from '../store/counters.ts'

/** Protects answers from caches and from being read as something else. */
export const HEADERS = { 'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff' }

export interface AdminContext {
  readonly config: Config
  readonly env: Environment
  /** Undefined: rules are disabled. */
  readonly rulesEngine: Pick<LiveRulesEngine, 'documents' | 'auditLog' | 'state'> | undefined
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

// biome-ignore lint/suspicious/noExplicitAny: whatever it takes and makes
export type Schema<Output = unknown> = v.GenericSchema<any, Output>

export interface Operation<Input = unknown, Answer = unknown> {
  /** POST if the input is a body. */
  readonly method: 'GET' | 'POST'
  /** Below `/_sluice/admin`. */
  readonly path: `/${string}`
  readonly summary: string
  readonly description?: string
  /** Its input: an object in the body or, where it names no caller, of the parameters in the URL. */
  readonly body?: Schema<Input>
  readonly query?: Schema<Input>
  readonly answer: Schema<Answer>
  /** The operation runs again and again, at this interval, and each answer is an event of a stream. */
  readonly everyMs?: number
  run(context: AdminContext, input: Input): Promise<Answer>
}

export function defineOperation<Input, Answer>(
  operation: Omit<Operation<Input, Answer>, 'method'>,
): Operation<Input, Answer> {
  return { method: operation.body ? 'POST' : 'GET', ...operation }
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

/** @param member of the body that names the caller */
export function locateCallerError({ part, message }: CallerError, member: 'caller' | 'target'): InputError {
  return new InputError(part === undefined ? [member] : [member, part], message)
}

/** A JSON pointer as a fragment (RFC 6901 §6), as in the example of RFC 9457 §3. */
export function toPointer(path: readonly (string | number)[]): string {
  return `#${path.map((key) => `/${`${key}`.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')}`
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
  return createTemporary('store_unavailable', 503, `Store unavailable: ${message}.`, 1_000)
}

/** No list of policies takes as much. */
const MAX_BODY_BYTES = 256 * 1024

/** @param path leads to the value in the body @throws {InputError} */
export function readInput<Output>(schema: Schema<Output>, value: unknown, path: readonly string[] = []): Output {
  const result = v.safeParse(schema, value, { abortEarly: true })
  if (result.success) return result.output
  const [{ path: inner = [], type, expected, received, message }] = result.issues
  const names = [...path, ...inner.map(({ key }) => String(key))]
  if (expected === 'never') throw new InputError(names, 'unknown field')
  if (received === 'undefined' && expected === JSON.stringify(names.at(-1))) throw new InputError(names, 'missing')
  const isOwn = !message.startsWith('Invalid ')
  const other = /integer|finite/.test(type) ? 'an integer' : `something other than ${received}`
  throw new InputError(names, `expected ${isOwn ? message : (expected ?? other)}`)
}

/** Reads the JSON of a request, and no more bytes than are taken. @throws {OperationError} */
export async function readJson({ body, headers }: Request): Promise<unknown> {
  if (!/^application\/json\s*(?:;|$)/i.test(headers.get('Content-Type') ?? '')) {
    throw new OperationError('unsupported_media_type', 415, 'Content-Type must be application/json.')
  }
  const isDeclaredLonger = Number(headers.get('Content-Length') ?? 0) > MAX_BODY_BYTES
  let text: string | undefined
  let value: unknown
  try {
    text = isDeclaredLonger ? undefined : await readUpTo(MAX_BODY_BYTES, body, true)
    value = text === undefined ? undefined : JSON.parse(text)
  } catch {
    throw new OperationError('invalid_input', 400, 'The body is not JSON in UTF-8.')
  }
  if (text === undefined) {
    throw new OperationError('body_too_large', 413, `A body may have ${MAX_BODY_BYTES} bytes at most.`)
  }
  // JSON.parse has kept the last one.
  const [, name] = findRepeatedName(text) ?? []
  if (name === undefined) return value
  throw new OperationError('invalid_input', 400, `An object of the body has ${JSON.stringify(name)} twice.`)
}
