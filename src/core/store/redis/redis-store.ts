/** Decides charges in Redis, by one call of one script. */
import type { Decision, DecisionRequest, StoreCharge } from '../../model/charge.ts'
import type { AlgorithmName } from '../../model/limits.ts'
import type { Adjustment, Release, Store } from '../../model/store.ts'
import type { CallContext, Deadlines } from '../../runtime/call-context.ts'
import { mapList } from '../../runtime/lists.ts'
import { Lru } from '../../runtime/lru.ts'
import type { RedisClient } from './client.ts'
import { createReplyError, RedisCalls, type RedisCallsOptions, type Script, toScript } from './redis-calls.ts'
import {
  type Chunks,
  joinScript,
  listReleaseArguments,
  listRenewArguments,
  listScriptArguments,
  listSettleArguments,
  listSlotMembers,
  MAX_ENTRIES_TO_READ,
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

const MAX_KEYS = 10_000
/**
 * Remembers how many entries the next decision on a stream needs to read at once to find the windows that hold few. Where
 * they turn out to be too few, the script sends one command more for a limit.
 */
export class EntriesToRead {
  readonly #counts = new Lru<number>(MAX_KEYS)

  readonly find = ({ key }: StoreCharge): number | undefined => this.#counts.get(key)

  update({ charges, permits }: DecisionRequest, { usage }: Decision): void {
    for (const [index, { key, algorithm, limits, cost }] of charges.entries()) {
      if (algorithm !== 'sliding-window') continue
      // Others are assumed to charge entries as large as this one.
      const units = cost * permits
      let entries = 1
      for (const [at, { limit }] of limits.entries()) {
        const held = Math.ceil((limit - (usage[index]?.[at]?.remaining ?? limit)) / units)
        // The windows of limits that hold many are looked up; but one may leave until then. Two may be added elsewhere,
        // and the one before a window shows where it begins.
        if (held <= MAX_ENTRIES_TO_READ + 1)
          entries = Math.max(entries, Math.min(held + 2, Math.floor(limit / units)) + 1)
      }
      entries = Math.min(MAX_ENTRIES_TO_READ, entries)
      if (this.#counts.get(key) !== entries) this.#counts.set(key, entries)
    }
  }
}
