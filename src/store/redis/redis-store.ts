import { createHash } from 'node:crypto'
import { Redis } from '@upstash/redis/cloudflare'
import { ALGORITHMS, type AlgorithmName } from '../../limit/algorithm.ts'
import { Deadlines, TOO_LATE } from '../deadlines.ts'
import type { WaitUntil } from '../call-context.ts'
import { decideScript, KEY_LOCKING, releaseScript, renewScript, settleScript } from './script.ts'
import {
  readDecision,
  releaseArguments,
  renewArguments,
  scriptArguments,
  settleArguments,
  slotMembers,
} from './script-call.ts'
import type { DecisionRequest, Difference, Release, Rule, Store, StoreDecision } from '../store.ts'
import { StoreError } from '../store.ts'

export interface RedisStoreOptions {
  /** Upstash's REST endpoint. */
  readonly url: string
  readonly token: string
  /** Those that rules may name. */
  readonly algorithms: ReadonlySet<AlgorithmName>
  /** Deadline of a decision, resends included, in milliseconds. */
  readonly timeoutMs: number
}

/** Redis 7 and later, then those before. */
const SHEBANG_UNKNOWN = /Unexpected flag in script shebang|unexpected symbol near '#'/

/** Characters of an error's message that are worth a log line. */
const MAX_WORDS = 200

/** Deadline of what nobody waits for, which is repeated until it is answered. */
const PATIENT_MS = 4_000

/** A script with the key-locking line, and without it. */
interface Script {
  readonly locking: Variant
  readonly plain: Variant
}

interface Variant {
  readonly text: string
  readonly sha1: string
}

/** After it, nothing more is sent. */
interface Deadline {
  hasPassed: boolean
}

interface Client {
  readonly redis: Redis
  readonly timeoutMs: number
}

/** Exact limits shared by all isolates: one EVALSHA over Upstash's REST interface decides a request. */
export class RedisStore implements Store {
  readonly kind = 'redis'
  readonly #client: Client
  /** It ends calls at their deadline: of those that hang, a request may have six. That costs a signal for each. */
  readonly #patient: Client
  readonly #token: string
  readonly #decide: Script
  readonly #settle: Script
  readonly #renew: Script
  readonly #release: Script
  /** Which variant to send: the first, until a server says that it does not know the line. */
  #variant: keyof Script = 'locking'

  constructor({ url, token, algorithms, timeoutMs }: RedisStoreOptions) {
    this.#token = token
    this.#decide = toScript(decideScript(algorithms))
    this.#settle = toScript(settleScript(new Set([...algorithms].filter((name) => ALGORITHMS[name].settle))))
    this.#renew = toScript(renewScript())
    this.#release = toScript(releaseScript())
    const options = {
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
    } as const
    this.#client = { redis: new Redis(options), timeoutMs }
    const signal = () => AbortSignal.timeout(PATIENT_MS)
    this.#patient = { redis: new Redis({ ...options, signal }), timeoutMs: PATIENT_MS }
  }

  async decide(request: DecisionRequest, waitUntil?: WaitUntil): Promise<StoreDecision> {
    const keys = request.rules.map(({ key }) => key)
    const reply = await this.#evaluate(this.#decide, keys, scriptArguments(request), {
      deadlines: waitUntil?.deadlines,
    })
    return readDecision(reply, request)
  }

  async release(rules: readonly Rule[]): Promise<void> {
    const { redis, timeoutMs } = this.#client
    const release = async (rule: Rule) => {
      const [first = '', ...others] = slotMembers(rule)
      const removed = await this.#within(timeoutMs, () => redis.zrem(rule.key, first, ...others))
      // Something else than Redis has answered, so nothing was given back.
      if (!Number.isSafeInteger(removed)) throw new StoreError('Redis answered something other than a number')
    }
    await Promise.all(rules.map((rule) => release(rule).catch(this.#fail([rule.key]))))
  }

  async revoke(releases: readonly Release[]): Promise<void> {
    const keys = releases.map(({ rule }) => rule.key)
    const count = await this.#evaluate(this.#release, keys, releaseArguments(releases), { client: this.#patient })
    if (count !== releases.length) throw new StoreError('Redis answered something other than the number of releases')
  }

  async renew(rules: readonly Rule[]): Promise<void> {
    const keys = rules.map(({ key }) => key)
    await this.#evaluate(this.#renew, keys, renewArguments(rules))
  }

  async settle(differences: readonly Difference[], chargedAtMs: number): Promise<void> {
    const keys = differences.map(({ rule }) => rule.key)
    await this.#evaluate(this.#settle, keys, settleArguments(differences, chargedAtMs))
  }

  async ping(): Promise<void> {
    await this.#within(this.#client.timeoutMs, () => this.#client.redis.ping()).catch(this.#fail([]))
  }

  #evaluate(
    script: Script,
    keys: string[],
    args: (string | number)[],
    { client = this.#client, deadlines }: { client?: Client; deadlines?: Deadlines | undefined } = {},
  ): Promise<unknown> {
    const { redis, timeoutMs } = client
    const call = (deadline: Deadline) => this.#send(redis, script, keys, args, deadline)
    return this.#within(timeoutMs, call, deadlines).catch(this.#fail(keys))
  }

  /** @param deadlines of the request, if it has any yet to come */
  async #within<T>(timeoutMs: number, call: (deadline: Deadline) => Promise<T>, deadlines?: Deadlines): Promise<T> {
    const deadline: Deadline = { hasPassed: false }
    const answer = await (deadlines ?? Deadlines.ofOne()).within(timeoutMs, call(deadline))
    if (answer !== TOO_LATE) return answer
    deadline.hasPassed = true
    throw new StoreError('Redis did not answer within the deadline')
  }

  /** Makes what the client throws a StoreError, without the keys and the token that a server may repeat. */
  #fail(keys: readonly string[]): (error: unknown) => never {
    return (error) => {
      if (error instanceof StoreError) throw error
      if (!(error instanceof Error)) throw new StoreError('the call to Redis failed')
      if (error.name !== 'UpstashError') {
        throw new StoreError('Redis could not be reached, or its answer could not be read')
      }
      const words = [this.#token, ...keys].reduce((text, secret) => text.replaceAll(secret, '…'), serverWords(error))
      throw new StoreError(`Redis answered an error: ${words.slice(0, MAX_WORDS)}`)
    }
  }

  /** Each resend follows an answer that says that nothing ran, so none can charge twice. */
  async #send(
    redis: Redis,
    script: Script,
    keys: string[],
    args: (string | number)[],
    deadline: Deadline,
  ): Promise<unknown> {
    const variant = this.#variant
    const { sha1, text } = script[variant]
    try {
      return await redis.evalsha(sha1, keys, args)
    } catch (error) {
      if (deadline.hasPassed || !isRedisError(error, /^NOSCRIPT\b/)) throw error
    }
    try {
      return await redis.eval(text, keys, args)
    } catch (error) {
      if (deadline.hasPassed || variant === 'plain' || !isRedisError(error, SHEBANG_UNKNOWN)) throw error
    }
    this.#variant = 'plain'
    return this.#send(redis, script, keys, args, deadline)
  }
}

function toScript(text: string): Script {
  return { locking: withSha1(KEY_LOCKING + text), plain: withSha1(text) }
}

function withSha1(text: string): Variant {
  return { text, sha1: createHash('sha1').update(text).digest('hex') }
}

function isRedisError(error: unknown, pattern: RegExp): boolean {
  return error instanceof Error && error.name === 'UpstashError' && pattern.test(serverWords(error))
}

/** The server's own words: the client appends the whole command, identities included. */
function serverWords({ message }: Error): string {
  return message.split(', command was:', 1)[0] ?? ''
}
