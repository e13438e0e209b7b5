import { createHash } from 'node:crypto'
import type { AlgorithmName } from '../../limit/algorithm-table.ts'
import type { Decision, DecisionRequest, Rule } from '../../limit/rule.ts'
import type { CallContext } from '../call-context.ts'
import { Deadlines, TOO_LATE } from '../deadlines.ts'
import type { Difference, Release, Store } from '../store.ts'
import { StoreError } from '../store.ts'
import type { RedisClient } from './client.ts'
import { decideScript, KEY_LOCKING, releaseScript, renewScript, SHEBANG_UNKNOWN, settleScript } from './script.ts'
import {
  readDecision,
  releaseArguments,
  renewArguments,
  scriptArguments,
  settleArguments,
  slotMembers,
} from './script-call.ts'

export interface RedisStoreOptions {
  readonly client: RedisClient
  /**
   * For calls that nobody waits for, which are repeated until they are answered: a client that ends calls after about 4
   * s, so that hanging ones do not pile up. Default: `client`.
   */
  readonly patientClient?: RedisClient
  /** Those that rules may name. */
  readonly algorithms: Iterable<AlgorithmName>
  /** Deadline of a decision, resends included, in milliseconds. */
  readonly timeoutMs: number
  /** What a server's errors may repeat, and no message may hold. */
  readonly secrets?: readonly string[]
}

/** Characters of an error's message that are worth a log line. */
const MAX_WORDS = 200

/** Deadline of calls that nobody waits for. */
export const PATIENT_MS = 4_000

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

/** How long to wait for a call, and by which client. */
interface Manner {
  readonly client: RedisClient
  readonly timeoutMs: number
}

/** Exact limits shared by all that use one Redis: one EVALSHA decides a request. */
export class RedisStore implements Store {
  readonly kind = 'redis'
  readonly #prompt: Manner
  readonly #patient: Manner
  readonly #secrets: readonly string[]
  readonly #decide: Script
  readonly #settle: Script
  readonly #renew: Script
  readonly #release: Script
  /** Which variant to send: the first, until a server says that it does not know the line. */
  #variant: keyof Script = 'locking'

  constructor({ client, patientClient = client, algorithms, timeoutMs, secrets = [] }: RedisStoreOptions) {
    this.#prompt = { client, timeoutMs }
    this.#patient = { client: patientClient, timeoutMs: PATIENT_MS }
    this.#secrets = secrets
    const names = [...algorithms]
    this.#decide = toScript(decideScript(names))
    this.#settle = toScript(settleScript(names))
    this.#renew = toScript(renewScript())
    this.#release = toScript(releaseScript())
  }

  async decide(request: DecisionRequest, context?: CallContext): Promise<Decision> {
    const keys = request.rules.map(({ key }) => key)
    const reply = await this.#evaluate(this.#decide, keys, scriptArguments(request), this.#prompt, context?.deadlines)
    return readDecision(reply, request)
  }

  async release(rules: readonly Rule[]): Promise<void> {
    const { client, timeoutMs } = this.#prompt
    const release = async (rule: Rule) => {
      const removed = await this.#within(timeoutMs, () => client.zrem(rule.key, slotMembers(rule)))
      // Something other than Redis has answered, so nothing was given back.
      if (!Number.isSafeInteger(removed)) throw new StoreError('Redis answered something other than a number')
    }
    await Promise.all(rules.map((rule) => release(rule).catch(this.#fail(client, [rule.key]))))
  }

  async revoke(releases: readonly Release[]): Promise<void> {
    const keys = releases.map(({ rule }) => rule.key)
    const count = await this.#evaluate(this.#release, keys, releaseArguments(releases), this.#patient)
    if (count !== releases.length) throw new StoreError('Redis answered something other than the number of releases')
  }

  async renew(rules: readonly Rule[]): Promise<void> {
    const keys = rules.map(({ key }) => key)
    await this.#evaluate(this.#renew, keys, renewArguments(rules), this.#prompt)
  }

  async settle(differences: readonly Difference[], chargedAtMs: number): Promise<void> {
    const keys = differences.map(({ rule }) => rule.key)
    await this.#evaluate(this.#settle, keys, settleArguments(differences, chargedAtMs), this.#prompt)
  }

  async forget(keys: readonly string[]): Promise<void> {
    const { client, timeoutMs } = this.#prompt
    const deleted = await this.#within(timeoutMs, () => client.del(keys)).catch(this.#fail(client, keys))
    if (!Number.isSafeInteger(deleted)) throw new StoreError('Redis answered something other than a number')
  }

  async ping(): Promise<void> {
    const { client, timeoutMs } = this.#prompt
    await this.#within(timeoutMs, () => client.ping()).catch(this.#fail(client, []))
  }

  #evaluate(
    script: Script,
    keys: string[],
    args: (string | number)[],
    { client, timeoutMs }: Manner,
    deadlines?: Deadlines,
  ): Promise<unknown> {
    const call = (deadline: Deadline) => this.#send(client, script, keys, args, deadline)
    return this.#within(timeoutMs, call, deadlines).catch(this.#fail(client, keys))
  }

  /** @param deadlines of the request, if it has any yet to come */
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

function toScript(text: string): Script {
  return { locking: withSha1(KEY_LOCKING + text), plain: withSha1(text) }
}

function withSha1(text: string): Variant {
  return { text, sha1: createHash('sha1').update(text).digest('hex') }
}
