import { createHash } from 'node:crypto'
import { StoreError } from '../../model/store.ts'
import { Deadlines, TOO_LATE } from '../../runtime/deadlines.ts'
import type { RedisClient } from './client.ts'

/**
 * The first line with which Upstash locks only a script's KEYS instead of the whole database. Plain Redis rejects it.
 * https://upstash.com/docs/redis/features/scripting
 */
export const KEY_LOCKING = '#!lua flags=allow-key-locking\n'

/** What plain Redis says of that line: 7 and later, then those before. */
export const SHEBANG_UNKNOWN = /Unexpected flag in script shebang|unexpected symbol near '#'/

/** A script with the key-locking line, and without it. */
export interface Script {
  readonly locking: Variant
  readonly plain: Variant
}

interface Variant {
  readonly text: string
  readonly sha1: string
}

export interface RedisCallsOptions {
  readonly client: RedisClient
  /** Deadline of a call, resends included, in milliseconds. */
  readonly timeoutMs: number
  /** What a server's errors may repeat, and no message may hold. */
  readonly secrets?: readonly string[]
}

/** Characters of an error's message that are worth a log line. */
const MAX_WORDS = 200

/** After it, nothing more is sent. */
interface Deadline {
  hasPassed: boolean
}

/** Calls Redis by one client, each call within a deadline. All that fails is a `StoreError` that may be logged. */
export class RedisCalls {
  readonly #client: RedisClient
  readonly #timeoutMs: number
  readonly #secrets: readonly string[]
  /** Which variant to send: the first, until a server says that it does not know the line. */
  #variant: keyof Script = 'locking'

  constructor({ client, timeoutMs, secrets = [] }: RedisCallsOptions) {
    this.#client = client
    this.#timeoutMs = timeoutMs
    this.#secrets = secrets
  }

  /** @param deadlines of the request, if it has any yet to come @throws {StoreError} */
  evaluate(script: Script, keys: string[], args: (string | number)[], deadlines?: Deadlines): Promise<unknown> {
    const deadline: Deadline = { hasPassed: false }
    return this.#within(this.#send(script, keys, args, deadline), keys, deadline, deadlines)
  }

  /** @param keys that the server may repeat @throws {StoreError} */
  call<T>(send: (client: RedisClient) => Promise<T>, keys: readonly string[] = []): Promise<T> {
    const call = async () => send(this.#client)
    return this.#within(call(), keys, { hasPassed: false })
  }

  async #within<T>(
    call: Promise<T>,
    keys: readonly string[],
    deadline: Deadline,
    deadlines = Deadlines.ofOne(),
  ): Promise<T> {
    try {
      const answer = await deadlines.within(this.#timeoutMs, call)
      if (answer !== TOO_LATE) return answer
    } catch (error) {
      this.#fail(error, keys)
    }
    deadline.hasPassed = true
    throw new StoreError('Redis did not answer within the deadline')
  }

  /** Turns what the client throws into a StoreError, without the keys and the secrets that a server may repeat. */
  #fail(error: unknown, keys: readonly string[]): never {
    if (error instanceof StoreError) throw error
    if (!(error instanceof Error)) throw new StoreError('the call to Redis failed')
    const said = this.#client.serverWords(error)
    if (said === undefined) throw new StoreError('Redis could not be reached, or its answer could not be read')
    const words = [...this.#secrets, ...keys].reduce((text, secret) => text.replaceAll(secret, '…'), said)
    throw new StoreError(`Redis answered an error: ${words.slice(0, MAX_WORDS)}`)
  }

  /** Each resend follows an answer that says that nothing ran, so none can charge twice. */
  async #send(script: Script, keys: string[], args: (string | number)[], deadline: Deadline): Promise<unknown> {
    const variant = this.#variant
    const { sha1, text } = script[variant]
    const connecting = this.#client.connecting?.()
    if (connecting) await connecting
    if (deadline.hasPassed) throw new StoreError('the connection to Redis came too late', { mayHaveRun: false })
    const isAnswer = (error: unknown, pattern: RegExp) => pattern.test(this.#client.serverWords(error) ?? '')
    try {
      return await this.#client.evalsha(sha1, keys, args)
    } catch (error) {
      if (deadline.hasPassed || !isAnswer(error, /^NOSCRIPT\b/)) throw error
    }
    try {
      return await this.#client.eval(text, keys, args)
    } catch (error) {
      if (deadline.hasPassed || variant === 'plain' || !isAnswer(error, SHEBANG_UNKNOWN)) throw error
    }
    this.#variant = 'plain'
    return this.#send(script, keys, args, deadline)
  }
}

export function toScript(text: string): Script {
  return { locking: withSha1(KEY_LOCKING + text), plain: withSha1(text) }
}

function withSha1(text: string): Variant {
  return { text, sha1: createHash('sha1').update(text).digest('hex') }
}
