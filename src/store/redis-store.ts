import { createHash } from 'node:crypto'
import { Redis } from '@upstash/redis/cloudflare'
import { KEY_LOCKING } from './script.ts'
import { readDecision, scriptArguments } from './script-call.ts'
import type { DecisionRequest, Store, StoreDecision } from './store.ts'
import { StoreError } from './store.ts'

export interface RedisStoreOptions {
  /** Upstash's REST endpoint. */
  readonly url: string
  readonly token: string
  /** The script that `joinScript` makes. */
  readonly script: string
  /** Deadline for each call, in milliseconds. */
  readonly timeoutMs: number
}

/** Redis 7 and later, then those before. */
const SHEBANG_UNKNOWN = /Unexpected flag in script shebang|unexpected symbol near '#'/

interface Script {
  readonly text: string
  readonly sha1: string
}

/** Exact limits shared by all isolates: one EVALSHA over Upstash's REST interface decides a request. */
export class RedisStore implements Store {
  readonly kind = 'redis'
  readonly #redis: Redis
  readonly #plain: Script
  /** The variant to send: with the key-locking line, until a server says that it does not know it. */
  #script: Script

  constructor({ url, token, script, timeoutMs }: RedisStoreOptions) {
    this.#plain = withSha1(script)
    this.#script = withSha1(KEY_LOCKING + script)
    this.#redis = new Redis({
      url,
      token,
      // A pipeline is a promise shared by several requests, and on Workers that hangs.
      enableAutoPipelining: false,
      // A repeated EVAL charges twice. `false` would still retry once.
      retry: { retries: 0 },
      automaticDeserialization: false,
      // Replies are integers only: nothing to encode.
      responseEncoding: false,
      enableTelemetry: false,
      readYourWrites: false,
      // A function, not a signal: an aborted static signal resolves as if it were a reply.
      signal: () => AbortSignal.timeout(timeoutMs),
    })
  }

  async decide(request: DecisionRequest): Promise<StoreDecision> {
    const keys = request.rules.map(({ key }) => key)
    const reply = await this.#evaluate(keys, scriptArguments(request)).catch((error: unknown) => {
      throw toStoreError(error)
    })
    return readDecision(reply, request)
  }

  async ping(): Promise<void> {
    await this.#redis.ping().catch((error: unknown) => {
      throw toStoreError(error)
    })
  }

  /** Each resend follows an answer that says that nothing ran, so none can charge twice. */
  async #evaluate(keys: string[], args: (string | number)[]): Promise<unknown> {
    const script = this.#script
    try {
      return await this.#redis.evalsha(script.sha1, keys, args)
    } catch (error) {
      if (!isRedisError(error, /^NOSCRIPT\b/)) throw error
    }
    try {
      return await this.#redis.eval(script.text, keys, args)
    } catch (error) {
      if (script === this.#plain || !isRedisError(error, SHEBANG_UNKNOWN)) throw error
    }
    this.#script = this.#plain
    return this.#evaluate(keys, args)
  }
}

function withSha1(text: string): Script {
  return { text, sha1: createHash('sha1').update(text).digest('hex') }
}

function isRedisError(error: unknown, pattern: RegExp): boolean {
  return error instanceof Error && error.name === 'UpstashError' && pattern.test(redisMessage(error))
}

/** The server's own words: the client appends the whole command, identities included. */
function redisMessage({ message }: Error): string {
  return message.split(', command was:', 1)[0]?.slice(0, 200) ?? ''
}

function toStoreError(error: unknown): StoreError {
  if (!(error instanceof Error)) return new StoreError('the call to Redis failed')
  switch (error.name) {
    case 'TimeoutError':
    case 'AbortError':
      return new StoreError('Redis did not answer within the deadline')
    case 'UpstashError':
      return new StoreError(`Redis answered an error: ${redisMessage(error)}`)
    default:
      return new StoreError('Redis could not be reached, or its answer could not be read')
  }
}
