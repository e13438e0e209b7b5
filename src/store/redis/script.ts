import addMembers from '../../../lua/add-members.lua'
import redisClock from '../../../lua/clock.lua'
import concurrency from '../../../lua/concurrency.lua'
import countedWindows from '../../../lua/counted-windows.lua'
import decide from '../../../lua/decide.lua'
import fixedWindow from '../../../lua/fixed-window.lua'
import quota from '../../../lua/quota.lua'
import release from '../../../lua/release.lua'
import renew from '../../../lua/renew.lua'
import settle from '../../../lua/settle.lua'
import slidingWindow from '../../../lua/sliding-window.lua'
import sortedSet from '../../../lua/sorted-set.lua'
import tierUsage from '../../../lua/tier-usage.lua'
import tokenBucket from '../../../lua/token-bucket.lua'
import { ALGORITHM_LETTERS, type AlgorithmName } from '../../limit/algorithm.ts'

interface Chunk {
  readonly lua: string
  /** Chunks whose values it is handed as `...`, in order. */
  readonly takes: readonly Chunk[]
}

const TIER_USAGE: Chunk = { lua: tierUsage, takes: [] }
const ADD_MEMBERS: Chunk = { lua: addMembers, takes: [] }
const COUNTED_WINDOWS: Chunk = { lua: countedWindows, takes: [TIER_USAGE] }

const MODULES: Readonly<Record<AlgorithmName, Chunk>> = {
  'sliding-window': { lua: slidingWindow, takes: [] },
  'token-bucket': { lua: tokenBucket, takes: [TIER_USAGE] },
  'fixed-window': { lua: fixedWindow, takes: [COUNTED_WINDOWS] },
  quota: { lua: quota, takes: [COUNTED_WINDOWS] },
  'sorted-set': { lua: sortedSet, takes: [TIER_USAGE, ADD_MEMBERS] },
  concurrency: { lua: concurrency, takes: [TIER_USAGE, ADD_MEMBERS] },
}

/**
 * The first line with which Upstash locks only a script's KEYS instead of the whole database. Plain Redis rejects it.
 * https://upstash.com/docs/redis/features/scripting
 */
export const KEY_LOCKING = '#!lua flags=allow-key-locking\n'

/** `decide.lua` for rules of these algorithms. @param clock a Lua chunk in place of Redis's own clock */
export function decideScript(algorithms: ReadonlySet<AlgorithmName>, clock: string = redisClock): string {
  return join(decide, algorithms, clock)
}

/** `settle.lua` for rules of these algorithms. @param clock a Lua chunk in place of Redis's own clock */
export function settleScript(algorithms: ReadonlySet<AlgorithmName>, clock: string = redisClock): string {
  return join(settle, algorithms, clock)
}

/** `renew.lua`. @param clock a Lua chunk in place of Redis's own clock */
export function renewScript(clock: string = redisClock): string {
  return join(renew, new Set(['concurrency'] as const), clock)
}

/** `release.lua`. @param clock a Lua chunk in place of Redis's own clock */
export function releaseScript(clock: string = redisClock): string {
  return join(release, new Set(['concurrency'] as const), clock)
}

/** Joins a main chunk, what it takes and what that takes into one script; none is altered. */
function join(main: string, algorithms: ReadonlySet<AlgorithmName>, clock: string): string {
  const names = new Map<Chunk, string>()
  let definitions = ''
  const define = (chunk: Chunk): string => {
    const taken = chunk.takes.map((other) => names.get(other) ?? define(other))
    const name = `chunk_${names.size + 1}`
    names.set(chunk, name)
    definitions += `local ${name} = ${call(chunk.lua, taken)}\n`
    return name
  }
  const modules = [...algorithms].map((name) => `${ALGORITHM_LETTERS[name]} = ${define(MODULES[name])}`)
  return `${definitions}return ${call(main, [`{ ${modules.join(', ')} }`, call(clock)])}`
}

function call(lua: string, values: readonly string[] = []): string {
  // For `...` that a chunk does not use, Lua 5.1 makes a table.
  const parameters = values.length > 0 ? '...' : ''
  return `(function(${parameters})\n${lua}\nend)(${values.join(', ')})`
}
