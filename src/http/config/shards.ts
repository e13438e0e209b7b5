/** Reads REDIS_SHARDS. Few gateways have several databases, so it is loaded on demand. */
import { findLayouts, SHARD_STATES } from '../../core/engine/places/shards.ts'
import type { RequestPolicy } from '../../core/model/policy.ts'
import { OptionError } from '../../core/options/option-error.ts'
import * as v from '../../core/options/readers.ts'
import { parseJson, REST_TOKEN, REST_URL } from './values.ts'

const EXPECTED =
  'JSON of a list of tables with name, url, token and, while it moves, state: "joining" or "leaving", but not of all alike'

const SHARD = {
  name: v.required(v.NAME),
  url: v.required(REST_URL),
  token: v.required(REST_TOKEN),
  state: v.oneOf(...SHARD_STATES),
}

const TABLES = v.list(v.table(SHARD, EXPECTED, 'key'), EXPECTED)
const COUNTING = v.narrowed(
  TABLES,
  (shards) => {
    const { now, next } = findLayouts(shards)
    return now.length > 0 && next.length > 0
  },
  EXPECTED,
)
const DISTINCT = v.narrowed(
  COUNTING,
  (shards) => new Set(shards.flatMap(({ name, url }) => [name, url])).size === 2 * shards.length,
  'each name and each url once',
)
const SHARDS = v.narrowed(
  DISTINCT,
  (shards) => findLayouts(shards).now[0] === shards[0],
  'first the database that has the rules, which cannot be "joining"',
)

/** @returns after how many milliseconds nothing is left of a count */
export function findLongestMs(policies: readonly Pick<RequestPolicy, 'limits' | 'penalty'>[]): number {
  const windowsMs = policies.flatMap(({ limits }) => limits.map(({ windowMs }) => windowMs))
  return Math.max(...windowsMs, ...policies.map(({ penalty }) => penalty?.durationMs ?? 0))
}

/** @returns databases that count together, at least one of which counts now, and one that will @throws {OptionError} */
export function readShards(env: Readonly<Record<string, unknown>>) {
  const { REDIS_SHARDS: given, UPSTASH_REDIS_REST_URL: url } = env
  if (given === undefined) return undefined
  if (url !== undefined) throw new OptionError('REDIS_SHARDS', 'none beside UPSTASH_REDIS_REST_URL', given)
  return v.read(SHARDS, typeof given === 'string' ? parseJson(given) : given, 'REDIS_SHARDS')
}
