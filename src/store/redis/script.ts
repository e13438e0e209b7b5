import { ALGORITHMS, type AlgorithmName, SLOT_ALGORITHMS } from '../../limit/algorithm-table.ts'
import { LUA } from './lua.ts'

type ChunkName = keyof typeof LUA

/**
 * The first line with which Upstash locks only a script's KEYS instead of the whole database. Plain Redis rejects it.
 * https://upstash.com/docs/redis/features/scripting
 */
export const KEY_LOCKING = '#!lua flags=allow-key-locking\n'

/** What plain Redis says of that line: 7 and later, then those before. */
export const SHEBANG_UNKNOWN = /Unexpected flag in script shebang|unexpected symbol near '#'/

/** `decide.lua` for rules of these algorithms. @param clock a Lua chunk in place of Redis's own clock */
export function decideScript(algorithms: Iterable<AlgorithmName>, clock: string = LUA.clock.lua): string {
  return join('decide', algorithms, clock)
}

/** `settle.lua` for those of these algorithms that can be settled. @param clock as above */
export function settleScript(algorithms: Iterable<AlgorithmName>, clock: string = LUA.clock.lua): string {
  return join(
    'settle',
    [...algorithms].filter((name) => ALGORITHMS[name].twin.settle),
    clock,
  )
}

/** `renew.lua`. @param clock a Lua chunk in place of Redis's own clock */
export function renewScript(clock: string = LUA.clock.lua): string {
  return join('renew', SLOT_ALGORITHMS, clock)
}

/** `release.lua`. @param clock a Lua chunk in place of Redis's own clock */
export function releaseScript(clock: string = LUA.clock.lua): string {
  return join('release', SLOT_ALGORITHMS, clock)
}

/** Joins a main chunk, what it takes and what that takes into one script. The module of an algorithm has its name. */
function join(main: ChunkName, algorithms: Iterable<AlgorithmName>, clock: string): string {
  const locals = new Map<ChunkName, string>()
  let definitions = ''
  const define = (name: ChunkName): string => {
    const { lua, takes } = LUA[name]
    const taken = takes.map((other) => locals.get(other) ?? define(other))
    const local = `chunk_${locals.size + 1}`
    locals.set(name, local)
    definitions += `local ${local} = ${call(lua, taken)}\n`
    return local
  }
  const modules = [...algorithms].map((name) => `${ALGORITHMS[name].letter} = ${define(name)}`)
  return `${definitions}return ${call(LUA[main].lua, [`{ ${modules.join(', ')} }`, call(clock)])}`
}

function call(lua: string, values: readonly string[] = []): string {
  // For `...` that a chunk does not use, Lua 5.1 makes a table.
  const parameters = values.length > 0 ? '...' : ''
  return `(function(${parameters})\n${lua}\nend)(${values.join(', ')})`
}
