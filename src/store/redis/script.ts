import { ALGORITHMS, SLOT_ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import type { AlgorithmName } from '../../model/limits.ts'
import { LUA } from './lua.ts'

/**
 * The first line with which Upstash locks only a script's KEYS instead of the whole database. Plain Redis rejects it.
 * https://upstash.com/docs/redis/features/scripting
 */
export const KEY_LOCKING = '#!lua flags=allow-key-locking\n'

/** What plain Redis says of that line: 7 and later, then those before. */
export const SHEBANG_UNKNOWN = /Unexpected flag in script shebang|unexpected symbol near '#'/

/** Parts of scripts, by the names of their files, and the names of what each takes. */
export type Chunks = Readonly<Record<string, Chunk>>

interface Chunk {
  readonly lua: string
  readonly takes: readonly string[]
}

/** Joins chunks into scripts. */
export class Scripts {
  readonly #chunks: Chunks
  readonly #clock: string

  /**
   * @param more what scripts need beside that which decides by sliding windows
   * @param clock a Lua chunk in place of Redis's own clock
   */
  constructor(more: Chunks = {}, clock: string = LUA.clock.lua) {
    this.#chunks = { ...LUA, ...more }
    this.#clock = clock
  }

  /** `decide.lua` for rules of these algorithms; with a block only if `penalize.lua` was handed in. */
  decide(algorithms: Iterable<AlgorithmName>): string {
    return this.#join('decide', algorithms)
  }

  /** `settle.lua` for those of these algorithms that can be settled. */
  settle(algorithms: Iterable<AlgorithmName>): string {
    return this.#join(
      'settle',
      [...algorithms].filter((name) => ALGORITHMS[name].implementation.settle),
    )
  }

  /** `renew.lua`. */
  renew(): string {
    return this.#join('renew', SLOT_ALGORITHMS)
  }

  /** `release.lua`. */
  release(): string {
    return this.#join('release', SLOT_ALGORITHMS)
  }

  /** Joins a main chunk, what it takes and what that takes into one script. The module of an algorithm has its name. */
  #join(main: string, algorithms: Iterable<AlgorithmName>): string {
    const locals = new Map<string, string>()
    let definitions = ''
    const define = (name: string): string => {
      const { lua, takes } = this.#chunks[name] as Chunk
      const taken = takes.map((other) => locals.get(other) ?? define(other))
      const local = `chunk_${locals.size + 1}`
      locals.set(name, local)
      definitions += `local ${local} = ${callChunk(lua, taken)}\n`
      return local
    }
    const modules = [...algorithms].map((name) => `${ALGORITHMS[name].letter} = ${define(name)}`)
    const { lua, takes } = this.#chunks[main] as Chunk
    const taken = takes.map((name) => (name in this.#chunks ? define(name) : 'nil'))
    const values = [`{ ${modules.join(', ')} }`, callChunk(this.#clock), ...taken].join(', ')
    // In no function of its own, which Redis would make for each call.
    return definitions + lua.replace('...', () => values)
  }
}

export function callChunk(lua: string, values: readonly string[] = []): string {
  // For `...` that a chunk does not use, Lua 5.1 makes a table.
  const parameters = values.length > 0 ? '...' : ''
  return `(function(${parameters})\n${lua}\nend)(${values.join(', ')})`
}
