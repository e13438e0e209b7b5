import { createHash } from 'node:crypto'
import { Deadlines, TOO_LATE } from '../deadlines.ts'
import { StoreError } from '../store.ts'
import type { RedisClient } from './client.ts'
import { KEY_LOCKING, SHEBANG_UNKNOWN } from './script.ts'

/** A script with the key-locking line, and without it. */
export interface Script {
  readonly locking: Variant
  readonly plain: Variant
}

interface Variant {
  readonly text: string
  readonly sha1: string
}

/** How long to wait for a call, and by which client. */
export interface Manner {
  readonly client: RedisClient
  /** Milliseconds, resends included. */
  readonly timeoutMs: number
}

/** After it, nothing more is sent. */
interface Deadline {
  hasPassed: boolean
}

/** Characters of an error's message that are worth a log line. */
const MAX_WORDS = 200

export function toScript(text: string): Script {
  return { locking: withSha1(KEY_LOCKING + text), plain: withSha1(text) }
}

function withSha1(text: string): Variant {
  return { text, sha1: createHash('sha1').update(text).digest('hex') }
}

/** Calls of one Redis: each has a deadline, is made once, and fails as a StoreError. */
export class RedisCalls {
  readonly #secrets: readonly string[]
  /** Which variant to send: the first, until a server says that it does not know the line. */
  #variant: keyof Script = 'locking'

  /** @param secrets what a server's errors may repeat, and no message may hold */
  constructor(secrets: readonly string[] = []) {
    this.#secrets = secrets
  }

  /**
   * Runs a script: EVALSHA, and EVAL where Redis does not know it.
   * @param deadlines of the request, if it has any yet to come
   * @throws {StoreError} whether it has run is then unknown
   */
  evaluate(
    script: Script,
    keys: string[],
    args: (string | number)[],
    { client, timeoutMs }: Manner,
    deadlines?: Deadlines,
  ): Promise<unknown> {
    const call = (deadline: Deadline) => this.#send(client, script, keys, args, deadline)
    return this.#within(timeoutMs, call, deadlines).catch(this.#fail(client, keys))
  }

  /**
   * Makes any other call.
   * @param keys what a server's errors may repeat as well
   * @throws {StoreError} whether it has had an effect is then unknown
   */
  call<T>(make: () => Promise<T>, keys: readonly string[], { client, timeoutMs }: Manner): Promise<T> {
    return this.#within(timeoutMs, make).catch(this.#fail(client, keys))
  }

  async #within<T>(timeoutMs: number, call: (deadline: Deadline) => Promise<T>, deadlines?: Deadlines): Promise<T> {
    const deadline: Deadline = { hasPassed: false }
    const answer = await (deadlines ?? Deadlines.ofOne()).within(timeoutMs, call(deadline))
    if (answer !== TOO_LATE) return answer
    deadline.hasPassed = true
    throw new StoreError('Redis did not answer within the deadline')
  }

  /** Turns what the client throws into a StoreError, without the keys and the secrets that a server may repeat. */
  #fail(client: RedisClient, keys: readonly string[]): (error: unknown) => never {
    return (error) => {
      if (error instanceof StoreError) throw error
      if (!(error instanceof Error)) throw new StoreError('the call to Redis failed')
      const said = client.serverWords(error)
      if (said === undefined) throw new StoreError('Redis could not be reached, or its answer could not be read')
      const words = [...this.#secrets, ...keys].reduce((text, secret) => text.replaceAll(secret, '…'), said)
      throw new StoreError(`Redis answered an error: ${words.slice(0, MAX_WORDS)}`)
    }
  }

  /** Each resend follows an answer that says that nothing ran, so none can charge twice. */
  async #send(
    client: RedisClient,
    script: Script,
    keys: string[],
    args: (string | number)[],
    deadline: Deadline,
  ): Promise<unknown> {
    const variant = this.#variant
    const { sha1, text } = script[variant]
    const isAnswer = (error: unknown, pattern: RegExp) => pattern.test(client.serverWords(error) ?? '')
    try {
      return await client.evalsha(sha1, keys, args)
    } catch (error) {
      if (deadline.hasPassed || !isAnswer(error, /^NOSCRIPT\b/)) throw error
    }
    try {
      return await client.eval(text, keys, args)
    } catch (error) {
      if (deadline.hasPassed || variant === 'plain' || !isAnswer(error, SHEBANG_UNKNOWN)) throw error
    }
    this.#variant = 'plain'
    return this.#send(client, script, keys, args, deadline)
  }
}
