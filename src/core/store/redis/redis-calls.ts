/** Calls scripts in Redis: once each, in time, and without a secret in an error. */
import { StoreError } from '../../model/store.ts'
import { Deadlines, TOO_LATE } from '../../runtime/call-context.ts'
import { createSha1 } from '../../runtime/hash.ts'
import type { RedisClient } from './client.ts'

/**
 * The first line with which Upstash locks only a script's KEYS instead of the whole database. Plain Redis rejects it.
 * https://upstash.com/docs/redis/features/scripting
 */
export const KEY_LOCKING = '#!lua flags=allow-key-locking\n'

/** The answers of plain Redis to that line: 7 and later, then those before. */
export const SHEBANG_UNKNOWN = /Unexpected flag in script shebang|unexpected symbol near '#'/

/** A script with the key-locking line, and without it. */
export type Script = Readonly<Record<'locking' | 'plain', Text>>

interface Text {
  readonly text: string
  /** Redis knows the text by it. It is computed before the first call. */
  sha1?: string
}

export interface RedisCallsOptions {
  readonly client: RedisClient
  /** Deadline of a call, resends included, in milliseconds. */
  readonly timeoutMs: number
  /** A server's errors may repeat these; no message may. */
  readonly secrets?: readonly string[]
}

const MAX_WORDS = 200

/** Nothing is sent after it. */
interface Deadline {
  hasPassed: boolean
}

/** Calls Redis by one client, within a deadline. Every error is a `StoreError` that may be logged. */
export class RedisCalls {
  readonly #client: RedisClient
  readonly #timeoutMs: number
  readonly #secrets: readonly string[]
  #variant: keyof Script = 'locking'

  constructor({ client, timeoutMs, secrets = [] }: RedisCallsOptions) {
    this.#client = client
    this.#timeoutMs = timeoutMs
    this.#secrets = secrets
  }

  /** @param deadlines all deadlines of the request @throws {StoreError} */
  evaluate(script: Script, keys: string[], args: (string | number)[], deadlines?: Deadlines): Promise<unknown> {
    const deadline = { hasPassed: false }
    return this.#waitWithin(this.#send(script, keys, args, deadline), keys, deadline, deadlines)
  }

  /** @param keys keys that the server may repeat @throws {StoreError} */
  call<T>(send: (client: RedisClient) => Promise<T>, keys: readonly string[] = []): Promise<T> {
    const call = async () => send(this.#client)
    return this.#waitWithin(call(), keys, { hasPassed: false })
  }

  async #waitWithin<T>(
    call: Promise<T>,
    keys: readonly string[],
    deadline: Deadline,
    deadlines = Deadlines.createForOne(),
  ): Promise<T> {
    try {
      const answer = await deadlines.waitWithin(this.#timeoutMs, call)
      if (answer !== TOO_LATE) return answer
    } catch (error) {
      this.#fail(error, keys)
    }
    deadline.hasPassed = true
    throw this.#createError('Redis did not answer within the deadline')
  }

  /** Turns what the client throws into a StoreError, without the keys and the secrets that a server may repeat. */
  #fail(error: unknown, keys: readonly string[]): never {
    if (error instanceof StoreError) throw error
    if (!(error instanceof Error)) throw new StoreError('the call to Redis failed')
    const answer = this.#client.serverWords(error)
    if (answer === undefined) throw this.#createError('Redis could not be reached, or its answer could not be read')
    const words = [...this.#secrets, ...keys].reduce((text, secret) => text.replaceAll(secret, '…'), answer)
    throw new StoreError(`Redis answered an error: ${words.slice(0, MAX_WORDS)}`)
  }

  #createError(message: string): StoreError {
    const failure = this.#client.readFailure?.()
    return new StoreError(failure === undefined ? message : `${message} (${failure})`)
  }

  /** Each resend follows an answer that says that nothing ran, so none can charge twice. */
  async #send(script: Script, keys: string[], args: (string | number)[], deadline: Deadline): Promise<unknown> {
    const client = this.#client
    const connecting = client.connecting?.()
    if (connecting) await connecting
    for (;;) {
      const variant = this.#variant
      const known = script[variant]
      // Each call computes it for itself: a promise that requests share may hang on Workers.
      known.sha1 ??= await createSha1(known.text)
      if (deadline.hasPassed) throw new StoreError('the connection to Redis came too late', { mayHaveRun: false })
      try {
        return await client.evalsha(known.sha1, keys, args)
      } catch (error) {
        if (deadline.hasPassed || !this.#isAnswer(error, /^NOSCRIPT\b/)) throw error
      }
      try {
        return await client.eval(known.text, keys, args)
      } catch (error) {
        if (deadline.hasPassed || variant === 'plain' || !this.#isAnswer(error, SHEBANG_UNKNOWN)) throw error
      }
      this.#variant = 'plain'
    }
  }

  #isAnswer(error: unknown, pattern: RegExp): boolean {
    return pattern.test(this.#client.serverWords(error) ?? '')
  }
}

export function toScript(lua: string): Script {
  return { locking: { text: KEY_LOCKING + lua }, plain: { text: lua } }
}

/** The reply is not one that the script gives. */
export function createReplyError(): StoreError {
  return new StoreError('unexpected reply from Redis')
}

/** @throws {StoreError} if it is not a list of texts */
export function toTexts(reply: unknown): string[] {
  if (!Array.isArray(reply) || !reply.every((item) => typeof item === 'string')) throw createReplyError()
  return reply
}

/** @param maxDigits 15 are always exact @throws {StoreError} if it is not a count of so many digits */
export function toCount(text: string | undefined, maxDigits = 15): number {
  if (text === undefined || text.length > maxDigits || !/^\d+$/.test(text)) throw createReplyError()
  return Number(text)
}
