import redisClock from '../../lua/clock.lua'
import decide from '../../lua/decide.lua'
import slidingWindow from '../../lua/sliding-window.lua'
import { ALGORITHM_LETTERS, type AlgorithmName } from '../algorithms/algorithm.ts'

const MODULES: Readonly<Record<AlgorithmName, string>> = {
  'sliding-window': slidingWindow,
}

/**
 * The first line with which Upstash locks only a script's KEYS instead of the whole database. Plain Redis rejects it.
 * https://upstash.com/docs/redis/features/scripting
 */
export const KEY_LOCKING = '#!lua flags=allow-key-locking\n'

/**
 * Joins the modules of these algorithms, `decide.lua` and a clock into one script; none of them is altered.
 * @param clock a Lua chunk in place of Redis's own clock
 */
export function joinScript(algorithms: ReadonlySet<AlgorithmName>, clock: string = redisClock): string {
  const modules = [...algorithms].map((name) => `${ALGORITHM_LETTERS[name]} = ${chunk(MODULES[name])}`)
  return `return ${chunk(decide)}({ ${modules.join(', ')} }, ${chunk(clock)})`
}

function chunk(lua: string): string {
  return `(function()\n${lua}\nend)()`
}
