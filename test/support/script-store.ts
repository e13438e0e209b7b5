import type { Decision, DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import type { Adjustment, Release } from '../../src/core/model/store.ts'
import { createSha1 } from '../../src/core/runtime/hash.ts'
import { LUA } from '../../src/core/store/redis/more-lua.ts'
import { type Script, toScript } from '../../src/core/store/redis/redis-calls.ts'
import {
  joinScript,
  listReleaseArguments,
  listRenewArguments,
  listScriptArguments,
  listSettleArguments,
  readDecision,
} from '../../src/core/store/redis/script.ts'
import { EVERY_ALGORITHM } from './charges.ts'
import type { RedisClient } from './redis-client.ts'

/** A clock that is told the time, as the last argument of the script. */
const ARGUMENT_CLOCK = 'return tonumber(ARGV[#ARGV])'

/** Far above any TTL that a test's windows lead to. */
const MARK_MS = 100_000_000_000

/**
 * A script, to which each TTL that it asks for is `MARK_MS` longer, so that no key expires by Redis's clock. It reads
 * the TTL of each key by the test's clock, as arguments before the last say it. It also answers, for each key, the TTL in ms that it asked for (-1: none) and the one that the key then had (-1: none, -2:
 * there is no such key), and leaves each with a TTL of `MARK_MS`.
 */
function recording(script: string): string {
  return `
local server, requested = redis, {}
local ttl_arguments = { EXPIRE = { at = 2, ms = 1000 }, PEXPIRE = { at = 2, ms = 1 }, SET = { at = 4, ms = 1 } }
local function find_lifetime(key)
  for i, other in ipairs(KEYS) do
    if other == key then
      return tonumber(ARGV[#ARGV - 1 - #KEYS + i])
    end
  end
end
local redis = {
  call = function(command, ...)
    local arguments, ttl = { ... }, ttl_arguments[command]
    if command == 'PTTL' then
      return find_lifetime(arguments[1])
    end
    if ttl then
      local ms = tonumber(arguments[ttl.at]) * ttl.ms
      requested[arguments[1]] = ms
      arguments[ttl.at] = string.format('%.0f', (ms + ${MARK_MS}) / ttl.ms)
    end
    return server.call(command, unpack(arguments))
  end,
}
local reply, lifetimes = (function() ${script} end)(), {}
for _, key in ipairs(KEYS) do
  lifetimes[#lifetimes + 1] = requested[key] or -1
  lifetimes[#lifetimes + 1] = server.call('PTTL', key)
  server.call('PEXPIRE', key, '${MARK_MS}')
end
return { reply or false, lifetimes }`
}

const DECIDE = toScript(recording(joinScript('decide', EVERY_ALGORITHM, LUA, ARGUMENT_CLOCK)))
const RELEASE = toScript(recording(joinScript('release', EVERY_ALGORITHM, LUA, ARGUMENT_CLOCK)))
const SETTLE = toScript(recording(joinScript('settle', EVERY_ALGORITHM, LUA, ARGUMENT_CLOCK)))
const RENEW = toScript(recording(joinScript('renew', EVERY_ALGORITHM, LUA, ARGUMENT_CLOCK)))

/** Longer than a test takes. */
const MOST_DELAY_MS = 600_000

/** The script itself in a real Redis, at a time of the test's choosing. */
export class ScriptStore {
  readonly #redis: RedisClient
  readonly #expiresAtMs = new Map<string, number>()
  #requested = 0

  constructor(redis: RedisClient) {
    this.#redis = redis
  }

  /**
   * Redis keeps the moment at which a key expires, by the clock that TIME reads, and deletes the key once that clock has
   * passed it. So that keys expire by the test's clock, none does by itself, and each is deleted here.
   * @param nowUs microseconds since the Unix epoch
   */
  async decide(request: DecisionRequest, nowUs: number): Promise<Decision> {
    return readDecision(await this.#change(DECIDE, findKeys(request.charges), this.#arguments(request), nowUs), request)
  }

  /** What it would decide then, by all it has stored, expired or not. */
  async peek(request: DecisionRequest, nowUs: number): Promise<Decision> {
    const requested = { ...request, action: 'peek' } as const
    const { reply } = await this.#run(DECIDE, findKeys(request.charges), this.#arguments(requested), nowUs)
    return readDecision(reply, requested)
  }

  async revoke(releases: readonly Release[], nowUs: number): Promise<void> {
    await this.#change(RELEASE, findKeys(releases.map(({ charge }) => charge)), listReleaseArguments(releases), nowUs)
  }

  async renew(charges: readonly StoreCharge[], nowUs: number): Promise<void> {
    await this.#change(RENEW, findKeys(charges), listRenewArguments(charges), nowUs)
  }

  async settle(differences: readonly Adjustment[], chargedAtMs: number, nowUs: number): Promise<void> {
    const keys = findKeys(differences.map(({ charge }) => charge))
    await this.#change(SETTLE, keys, listSettleArguments(differences, chargedAtMs), nowUs)
  }

  async heldUnits({ key }: StoreCharge, nowUs: number): Promise<ReadonlyMap<number, number>> {
    const members = await this.#redis.zRangeByScore(key, `(${Math.floor(nowUs / 1000)}`, '+inf')
    const units = new Map<number, number>()
    for (const member of members) {
      const slot = Number(member.split(':')[0])
      units.set(slot, (units.get(slot) ?? 0) + 1)
    }
    return units
  }

  marks({ key }: StoreCharge): Promise<number> {
    return this.#redis.zCount(key, '-inf', '(0')
  }

  async kept(charges: readonly StoreCharge[]): Promise<unknown> {
    return Promise.all(findKeys(charges).map(async (key) => [await this.#redis.dump(key), this.expiresAtMs(key)]))
  }

  /** When a key expires by the test's clock; for a key never written, in the past. */
  expiresAtMs(key: string): number {
    return this.#expiresAtMs.get(key) ?? Number.NEGATIVE_INFINITY
  }

  /** However many entries of a stream are read at once, the decision is the same. */
  #arguments(request: DecisionRequest): (string | number)[] {
    const entries = [undefined, 1, 2, 5][this.#requested++ % 4]
    return listScriptArguments(request, ({ algorithm }) => (algorithm === 'sliding-window' ? entries : undefined))
  }

  async #change(script: Script, keys: readonly string[], args: readonly (string | number)[], nowUs: number) {
    const nowMs = Math.floor(nowUs / 1000)
    const expired = keys.filter((key) => this.expiresAtMs(key) < nowMs)
    for (const key of expired) this.#expiresAtMs.delete(key)
    // Sent in one go, and run in this order.
    const deleting = expired.length > 0 ? this.#redis.del(expired) : undefined
    const [{ reply, lifetimes }] = await Promise.all([this.#run(script, keys, args, nowUs), deleting])
    keys.forEach((key, index) => {
      const [requestedMs = -1, pttlMs = -1] = lifetimes.slice(2 * index)
      const expectedMs = MARK_MS + Math.max(requestedMs, 0)
      const isMissing = pttlMs === -2
      if (!isMissing && (pttlMs > expectedMs || pttlMs < expectedMs - MOST_DELAY_MS)) {
        throw new Error(`${key} has a TTL of ${pttlMs} ms, not ${expectedMs} ms`)
      }
      // What makes it anew has no TTL.
      if (isMissing) this.#expiresAtMs.delete(key)
      else if (requestedMs >= 0) this.#expiresAtMs.set(key, nowMs + requestedMs)
    })
    return reply
  }

  async #run({ plain }: Script, keys: readonly string[], args: readonly (string | number)[], nowUs: number) {
    const remainingMs = keys.map((key) => Math.max(-1, this.expiresAtMs(key) - Math.floor(nowUs / 1000)))
    const all = [...args, ...remainingMs, nowUs].map(String)
    const options = { keys: [...keys], arguments: all }
    plain.sha1 ??= await createSha1(plain.text)
    const answer = await this.#redis.evalSha(plain.sha1, options).catch((error: Error) => {
      if (!error.message.startsWith('NOSCRIPT')) throw error
      return this.#redis.eval(plain.text, options)
    })
    const [reply, lifetimes] = answer as unknown as [unknown, number[]]
    return { reply, lifetimes }
  }
}

function findKeys(charges: readonly StoreCharge[]): string[] {
  return charges.map(({ key }) => key)
}
