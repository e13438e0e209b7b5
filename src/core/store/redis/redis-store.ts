/** Decides charges in Redis, by one call of one script. */
import type { Decision, DecisionRequest, StoreCharge } from '../../model/charge.ts'
import type { AlgorithmName } from '../../model/limits.ts'
import type { Adjustment, Release, Store } from '../../model/store.ts'
import type { CallContext, Deadlines } from '../../runtime/call-context.ts'
import { mapList } from '../../runtime/lists.ts'
import type { RedisClient } from './client.ts'
import { EntriesToRead } from './entries-to-read.ts'
import { createReplyError, RedisCalls, type RedisCallsOptions, type Script, toScript } from './redis-calls.ts'
import {
  type Chunks,
  joinScript,
  listReleaseArguments,
  listRenewArguments,
  listScriptArguments,
  listSettleArguments,
  listSlotMembers,
  type MainChunk,
  readDecision,
} from './script.ts'

export interface RedisStoreParts extends RedisCallsOptions {
  /**
   * Makes the calls that no response waits for, which are repeated until they are answered. It ends calls after about 4 s, so
   * that hanging ones do not pile up. Default: `client`.
   */
  readonly patientClient?: RedisClient
  /** The algorithms that the scripts know. One that is missing is added with the first charge that uses it. */
  readonly algorithms: Iterable<AlgorithmName>
  /** Needed by algorithms other than `sliding-window`, and by penalties. */
  readonly moreLua?: Chunks | undefined
}

export const BACKGROUND_TIMEOUT_MS = 4_000

/** Exact limits shared by all that use one Redis: one EVALSHA decides a request. */
export class RedisStore implements Store {
  readonly kind = 'redis'
  readonly #prompt: RedisCalls
  readonly #patient: RedisCalls
  readonly #algorithms: Set<AlgorithmName>
  readonly #moreLua: Chunks | undefined
  readonly #scripts = new Map<MainChunk, Script>()
  readonly #entriesToRead = new EntriesToRead()

  constructor({ client, patientClient = client, algorithms, moreLua, timeoutMs, secrets = [] }: RedisStoreParts) {
    this.#prompt = new RedisCalls({ client, timeoutMs, secrets })
    this.#patient = new RedisCalls({ client: patientClient, timeoutMs: BACKGROUND_TIMEOUT_MS, secrets })
    this.#algorithms = new Set(algorithms)
    this.#moreLua = moreLua
  }

  async decide(request: DecisionRequest, context?: CallContext): Promise<Decision> {
    const args = listScriptArguments(request, this.#entriesToRead.find)
    const reply = await this.#evaluate(this.#prompt, 'decide', request.charges, args, context?.deadlines)
    const decision = readDecision(reply, request)
    this.#entriesToRead.update(request, decision)
    return decision
  }

  async release(charges: readonly StoreCharge[]): Promise<void> {
    const release = (charge: StoreCharge) =>
      this.#count((client) => client.zrem(charge.key, listSlotMembers(charge)), [charge.key])
    await Promise.all(charges.map(release))
  }

  async revoke(releases: readonly Release[]): Promise<void> {
    const charges = releases.map(({ charge }) => charge)
    const count = await this.#evaluate(this.#patient, 'release', charges, listReleaseArguments(releases))
    if (count !== releases.length) throw createReplyError()
  }

  async renew(charges: readonly StoreCharge[]): Promise<void> {
    await this.#evaluate(this.#prompt, 'renew', charges, listRenewArguments(charges))
  }

  async settle(differences: readonly Adjustment[], chargedAtMs: number): Promise<void> {
    const charges = differences.map(({ charge }) => charge)
    await this.#evaluate(this.#prompt, 'settle', charges, listSettleArguments(differences, chargedAtMs))
  }

  async delete(keys: readonly string[]): Promise<void> {
    await this.#count((client) => client.del(keys), keys)
  }

  async ping(): Promise<void> {
    await this.#prompt.call((client) => client.ping())
  }

  #evaluate(
    calls: RedisCalls,
    main: MainChunk,
    charges: readonly StoreCharge[],
    args: (string | number)[],
    deadlines?: Deadlines,
  ): Promise<unknown> {
    const keys = mapList(charges, ({ key }) => key)
    return calls.evaluate(this.#getScript(main, charges), keys, args, deadlines)
  }

  /** Each is made when it is first called. Algorithms stay in it: their charges may still be settled. */
  #getScript(main: MainChunk, charges: readonly StoreCharge[]): Script {
    const before = this.#algorithms.size
    for (const { algorithm } of charges) this.#algorithms.add(algorithm)
    if (this.#algorithms.size > before) this.#scripts.clear()
    const known = this.#scripts.get(main)
    if (known) return known
    const script = toScript(joinScript(main, this.#algorithms, this.#moreLua))
    this.#scripts.set(main, script)
    return script
  }

  async #count(send: (client: RedisClient) => Promise<unknown>, keys: readonly string[]): Promise<void> {
    const count = await this.#prompt.call(send, keys)
    // Something other than Redis has answered, so nothing was done.
    if (!Number.isSafeInteger(count)) throw createReplyError()
  }
}
