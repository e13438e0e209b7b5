/** Records the calls to a store that is behind a bad network, for `linearizability.ts`. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { decorate } from '../../src/core/engine/stages/stage.ts'
import type { Decision, DecisionRequest } from '../../src/core/model/charge.ts'
import { type Store, StoreError } from '../../src/core/model/store.ts'
import { createSha1 } from '../../src/core/runtime/hash.ts'
import type { RedisClient } from '../../src/core/store/redis/client.ts'

/** A call as its caller saw it, by one clock for all callers: milliseconds since the Unix epoch, with a fraction. */
export interface Call {
  readonly startMs: number
  /** Infinite without an answer: the call may then be decided at any time after its start, or never. */
  readonly endMs: number
  readonly request: DecisionRequest
  readonly decision?: Decision
  /** The store's time of the decision in microseconds, if it is known more exactly than `nowMs` tells. */
  readonly atUs?: number
}

/** The fate of one call in the network. */
export interface Delivery {
  /** Time until the store gets it, and until the caller gets the answer. */
  readonly toMs: number
  readonly backMs: number
  /** Whether it is lost before the store decides, or the answer after that. */
  readonly loses?: 'call' | 'answer' | undefined
}

export interface Recording {
  /** Milliseconds since the Unix epoch, with a fraction; it never goes back. */
  readonly now: () => number
  readonly sleep: (ms: number) => Promise<unknown>
  readonly draw: () => Delivery
}

type OpenCall = { -readonly [Name in keyof Call]: Call[Name] }

/** Divides a history into those whose calls share keys, directly or through other calls. */
export function splitByKeys(calls: readonly Call[]): Call[][] {
  const groups = new Map<string, { calls: Call[]; keys: string[] }>()
  for (const call of calls) {
    const keys = call.request.charges.map(({ key }) => key)
    const joined = new Set(keys.flatMap((key) => groups.get(key) ?? []))
    const group = { calls: [...joined].flatMap((one) => one.calls), keys: [...joined].flatMap((one) => one.keys) }
    group.calls.push(call)
    group.keys.push(...keys)
    for (const key of group.keys) groups.set(key, group)
  }
  return [...new Set(groups.values())].map((group) => group.calls)
}

/** The call that is being decided. */
const current = new AsyncLocalStorage<OpenCall>()

/** @returns a store over `store`, and the calls to it so far */
export function recordCalls(store: Store, { now, sleep, draw }: Recording): { store: Store; calls: readonly Call[] } {
  const calls: OpenCall[] = []
  const recorded = decorate(store, {
    async decide(request, context) {
      const call: OpenCall = { startMs: now(), endMs: Number.POSITIVE_INFINITY, request }
      calls.push(call)
      const { toMs, backMs, loses } = draw()
      if (toMs > 0) await sleep(toMs)
      if (loses === 'call') throw new StoreError('the call was lost')
      const decision = await current.run(call, () => store.decide(request, context))
      if (backMs > 0) await sleep(backMs)
      if (loses === 'answer') throw new StoreError('the answer was lost')
      call.decision = decision
      call.endMs = now()
      return decision
    },
  })
  return { store: recorded, calls }
}

/** Answers what a script answers, and the time in microseconds that it has read. */
function readTime(script: string): string {
  return `
local server, time = redis
local redis = {
  call = function(command, ...)
    local reply = server.call(command, ...)
    if command == 'TIME' then
      time = reply
    end
    return reply
  end,
}
local reply = (function() ${script} end)()
return { reply, time[1] * 1000000 + time[2] }`
}

const UNKNOWN_SCRIPT = new Error('NOSCRIPT no such script')
const UNKNOWN_FLAG = new Error('ERR Unexpected flag in script shebang')

/**
 * A client with which the call that is recorded gets the time of its decision in microseconds.
 * @param losesAnswer whether the answer to a script that has run is lost on its way to the client
 */
export function timeCalls(client: RedisClient, losesAnswer: () => boolean = () => false): RedisClient {
  const scripts = new Map<string, string>()
  const run = async (script: string, keys: string[], args: (string | number)[]) => {
    const call = current.getStore()
    const [reply, atUs] = (await client.eval(script, keys, args)) as [unknown, number]
    if (call) call.atUs = atUs
    if (losesAnswer()) throw new Error('the connection was lost')
    return reply
  }
  return {
    ...client,
    async evalsha(sha1, keys, args) {
      const script = scripts.get(sha1)
      if (script === undefined) throw UNKNOWN_SCRIPT
      return run(script, keys, args)
    },
    async eval(script, keys, args) {
      if (script.startsWith('#!')) throw UNKNOWN_FLAG
      const timed = readTime(script)
      scripts.set(await createSha1(script), timed)
      return run(timed, keys, args)
    },
    serverWords: (error) =>
      [UNKNOWN_SCRIPT, UNKNOWN_FLAG].find((own) => own === error)?.message ?? client.serverWords(error),
  }
}
