/** Reads REDIS_SHARDS. Few gateways have several databases, so it is loaded on demand. */
import * as v from 'valibot'
import { SHARD_STATES } from '../../core/engine/places/shards.ts'
import type { RequestPolicy } from '../../core/model/policy.ts'
import { HIDDEN, NAME, OptionError } from '../../core/options/option-error.ts'
import { oneOf, parseJson, restToken, restUrl, strictTable, textLike } from './values.ts'
import { toOptionError } from './variables.ts'

const EXPECTED =
  'JSON of a list of tables with name, url, token and, while it moves, state: "joining" or "leaving", but not of all alike'

const table = strictTable(
  'key',
  { name: textLike(NAME), url: restUrl(), token: restToken(), state: v.optional(oneOf(...SHARD_STATES)) },
  EXPECTED,
)

const shards = v.object({
  REDIS_SHARDS: v.pipe(
    v.array(table, EXPECTED),
    v.check((shards) => SHARD_STATES.every((own) => shards.some(({ state }) => state !== own)), EXPECTED),
    v.check((shards) => {
      return new Set(shards.flatMap(({ name, url }) => [name, url])).size === 2 * shards.length
    }, 'each name and each url once'),
    v.check(
      ([first]) => first?.state !== 'joining',
      'first the database that has the rules, which cannot be "joining"',
    ),
  ),
})

/** @returns after how many milliseconds nothing is left of a count */
export function findLongestMs(policies: readonly Pick<RequestPolicy, 'limits' | 'penalty'>[]): number {
  const windowsMs = policies.flatMap(({ limits }) => limits.map(({ windowMs }) => windowMs))
  return Math.max(...windowsMs, ...policies.map(({ penalty }) => penalty?.durationMs ?? 0))
}

/** @returns databases that count together, at least one of which counts now, and one that will @throws {OptionError} */
export function readShards(env: Readonly<Record<string, unknown>>) {
  const { REDIS_SHARDS: given, UPSTASH_REDIS_REST_URL: url } = env
  if (given === undefined) return undefined
  if (url !== undefined) throw new OptionError('REDIS_SHARDS', 'none beside UPSTASH_REDIS_REST_URL', HIDDEN)
  const value = typeof given === 'string' ? parseJson(given) : given
  const result = v.safeParse(shards, { REDIS_SHARDS: value }, { abortEarly: true })
  if (result.success) return result.output.REDIS_SHARDS
  throw toOptionError(result.issues[0])
}
