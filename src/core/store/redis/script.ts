/**
 * Joins the chunks of Lua that the configured algorithms need into one script, and encodes charges for it. Each file of
 * `lua/` is a chunk that takes the chunks it needs as `...`, so it can be read and linted by itself, and a script has
 * nothing that no policy needs. No value is written into a script: a charge travels as keys and arguments, so Redis
 * keeps few scripts, and nothing that a caller sends becomes code.
 */
import { ALGORITHMS, holdsSlots } from '../../algorithms/algorithm-table.ts'
import { ACTIONS, type Decision, type DecisionRequest, type LimitState, type StoreCharge } from '../../model/charge.ts'
import { ALGORITHM_NAMES, type AlgorithmName, type PenaltySettings } from '../../model/limits.ts'
import { isEnforced } from '../../model/policy.ts'
import { type Adjustment, type Release, StoreError } from '../../model/store.ts'
import { type Complete, mapList } from '../../runtime/lists.ts'
import { LUA } from './lua.ts'
import type { LUA as MORE_LUA } from './more-lua.ts'
import { createReplyError } from './redis-calls.ts'

/** Parts of scripts by file name. `takes` names the parts that one is called with. */
export type Chunks = Readonly<Record<string, { readonly lua: string; readonly takes: readonly string[] }>>

/** Each algorithm has a chunk of its name. */
type ChunkName = keyof typeof LUA | keyof typeof MORE_LUA

/** Main chunks, and which of the algorithms each takes. */
const MAIN = {
  /** It applies penalties only if there is `penalize.lua`. */
  decide: () => true,
  settle: (name: AlgorithmName) => ALGORITHMS[name].implementation.settle !== undefined,
  renew: (algorithm: AlgorithmName) => holdsSlots({ algorithm }),
  release: (algorithm: AlgorithmName) => holdsSlots({ algorithm }),
}

export type MainChunk = keyof typeof MAIN

/**
 * Joins a main chunk and all that it needs into one script. The module of an algorithm has its name.
 * @param more the chunks for anything but decisions by sliding windows
 * @param clock a Lua chunk in place of Redis's own clock
 */
export function joinScript(
  main: MainChunk,
  algorithms: Iterable<AlgorithmName>,
  more: Chunks = {},
  clock: string = LUA.clock.lua,
): string {
  const chunks: Chunks = { ...LUA, ...more }
  const locals = new Map<string, string>()
  let definitions = ''
  const define = (name: string): string => {
    const { lua, takes } = chunks[name] as Chunks[string]
    const taken = takes.map((other) => locals.get(other) ?? define(other))
    const local = `chunk_${locals.size + 1}`
    locals.set(name, local)
    definitions += `local ${local} = ${callChunk(lua, taken)}\n`
    return local
  }
  // In one order, whichever came first: Redis keeps each script that it has seen.
  const used = new Set(algorithms)
  const modules = ALGORITHM_NAMES.filter((name) => used.has(name) && MAIN[main](name)).map(
    (name) => `${ALGORITHMS[name].letter} = ${define(name satisfies ChunkName)}`,
  )
  const { lua, takes } = chunks[main] as Chunks[string]
  const taken = takes.map((name) => (name in chunks ? define(name) : 'nil'))
  const values = [`{ ${modules.join(', ')} }`, callChunk(clock), ...taken].join(', ')
  // The main chunk has no function of its own: Redis would make it for each call.
  return definitions + lua.replace('...', () => values)
}

function callChunk(lua: string, values: readonly string[] = []): string {
  // Lua 5.1 makes a table for an unused `...`.
  const parameters = values.length > 0 ? '...' : ''
  return `(function(${parameters})\n${lua}\nend)(${values.join(', ')})`
}

/** More entries are not read at once: each takes Redis a tenth of the decision. */
export const MAX_ENTRIES_TO_READ = 8

/**
 * Makes ARGV of `lua/decide.lua`. Here as below, KEYS are those of the charges, in order.
 * @param entriesToRead how many entries of a stream to read at once, if anything is known
 */
export function listScriptArguments(
  { action, permits, leaseMs = 0, charges }: DecisionRequest,
  entriesToRead: (charge: StoreCharge) => number | undefined = () => undefined,
): (string | number)[] {
  const args: (string | number)[] = [action, permits, leaseMs]
  for (const charge of charges) {
    const numbers = listNumbers(charge)
    if (charge.algorithm === 'sliding-window') numbers.push(entriesToRead(charge) ?? MAX_ENTRIES_TO_READ)
    args.push(encodeCharge(charge), numbers.length, ...numbers)
  }
  return args
}

/** It makes one argument, since each takes Redis as long as ten steps of Lua. */
function encodeCharge(charge: StoreCharge): string {
  const { algorithm, counts = 'requests', cost, reserved } = charge
  const penalty = readPenaltySettings(charge)
  const kind = penalty ? 'penalty' : isEnforced(charge) ? 'enforce' : 'shadow'
  const terms = `${ALGORITHMS[algorithm].letter} ${kind} ${counts} ${cost} ${reserved}`
  return penalty ? `${terms} ${penalty.durationMs} ${penalty.after}` : terms.replace(' enforce requests 1 0', '')
}

export function listSettleArguments(differences: readonly Adjustment[], chargedAtMs: number): (string | number)[] {
  const perCharge = differences.flatMap(({ charge, units }) => {
    const numbers = listNumbers(charge)
    return [ALGORITHMS[charge.algorithm].letter, charge.cost, units, numbers.length, ...numbers]
  })
  return [chargedAtMs, ...perCharge]
}

export function listRenewArguments(charges: readonly StoreCharge[]): number[] {
  return charges.flatMap(({ limits, slot = 0, cost }) => [limits[0]?.windowMs ?? 0, slot, cost])
}

export function listReleaseArguments(releases: readonly Release[]): (string | number)[] {
  return releases.flatMap(({ charge: { slot = 0, cost }, isKnown }) => [slot, cost, isKnown ? 'known' : 'unknown'])
}

export function listSlotMembers({ slot, cost }: StoreCharge): string[] {
  return Array.from({ length: cost }, (_, index) => `${slot}:${index + 1}`)
}

/** The arguments of the algorithm's module, as its header says. */
function listNumbers({ limits, burst, slot }: StoreCharge): (string | number)[] {
  const numbers: (string | number)[] = []
  for (const { limit, windowMs, calendar } of limits) {
    numbers.push(calendar ? [limit, ...calendar.findEnds(Date.now())].join(' ') : limit, windowMs)
  }
  if (burst !== undefined) numbers.push(burst)
  if (slot !== undefined) numbers.push(slot)
  return numbers
}

/** A penalty has no effect in shadow mode. */
function readPenaltySettings(charge: StoreCharge): PenaltySettings | undefined {
  return isEnforced(charge) ? charge.penalty : undefined
}

/** @throws {StoreError} if the reply is not one to this request */
export function readDecision(reply: unknown, request: DecisionRequest): Decision {
  const { permits, charges } = request
  const size = charges.reduce(
    (sum, charge) => sum + 3 * charge.limits.length + (readPenaltySettings(charge) ? 1 : 0),
    2,
  )
  if (!Array.isArray(reply) || reply.length !== size || !reply.every(isCount)) {
    throw createReplyError()
  }
  let at = 0
  const next = () => reply[at++] as number
  const granted = next()
  if (granted > permits) throw new StoreError('Redis granted a number of permits that was not asked for')
  const nowMs = next()
  const usage = mapList(charges, (charge) => {
    const limits = mapList(
      charge.limits,
      (): LimitState => ({ remaining: next(), resetMs: next(), retryAfterMs: next() }),
    )
    const penaltyMs = readPenaltySettings(charge) ? next() : 0
    return penaltyMs === 0 ? limits : limits.map((limit) => ({ ...limit, penaltyMs }) satisfies Complete<LimitState>)
  })
  const decision = { granted, nowMs, usage }
  if (!isConsistent(request, decision)) throw new StoreError('Redis answered a decision that contradicts itself')
  return decision
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

/**
 * Nothing may be granted exactly if a charge is refused for some time, which is until its penalty ends at least; and no
 * more may be left than there can be.
 */
function isConsistent({ action, permits, charges }: DecisionRequest, { granted, nowMs, usage }: Decision): boolean {
  let isRefused = false
  for (const [index, charge] of charges.entries()) {
    const isCounted = isEnforced(charge) && ACTIONS[action].mayRefuse
    for (const [at, { remaining, retryAfterMs, penaltyMs }] of (usage[index] ?? []).entries()) {
      const max = charge.burst ?? charge.limits[at]?.limit ?? 0
      if (remaining > max || (penaltyMs !== undefined && retryAfterMs < penaltyMs)) return false
      isRefused ||= isCounted && retryAfterMs > 0
    }
  }
  const isWhole = ACTIONS[action].grantsPart || granted === 0 || granted === permits
  return nowMs > 0 && isRefused === (granted === 0) && isWhole
}
