import { ALGORITHMS, SLOT_ALGORITHMS } from '../../algorithms/algorithm-table.ts'
import type { Decision, DecisionRequest, LimitState, StoreCharge } from '../../model/charge.ts'
import type { AlgorithmName, PenaltySettings } from '../../model/limits.ts'
import { type Adjustment, type Release, StoreError } from '../../model/store.ts'
import { mapList } from '../../runtime/map-list.ts'
import { LUA } from './lua.ts'

/** Parts of scripts by file name. `takes` names the parts that one is called with. */
export type Chunks = Readonly<Record<string, { readonly lua: string; readonly takes: readonly string[] }>>

export class Scripts {
  readonly #chunks: Chunks
  readonly #clock: string

  /**
   * @param more the chunks for anything but decisions by sliding windows
   * @param clock a Lua chunk in place of Redis's own clock
   */
  constructor(more: Chunks = {}, clock: string = LUA.clock.lua) {
    this.#chunks = { ...LUA, ...more }
    this.#clock = clock
  }

  /** It applies penalties only if `more` has `penalize.lua`. */
  decide(algorithms: Iterable<AlgorithmName>): string {
    return this.#join('decide', algorithms)
  }

  settle(algorithms: Iterable<AlgorithmName>): string {
    const settleable = [...algorithms].filter((name) => ALGORITHMS[name].implementation.settle)
    return this.#join('settle', settleable)
  }

  renew(): string {
    return this.#join('renew', SLOT_ALGORITHMS)
  }

  release(): string {
    return this.#join('release', SLOT_ALGORITHMS)
  }

  /** Joins a main chunk and all that it needs into one script. The module of an algorithm has its name. */
  #join(main: string, algorithms: Iterable<AlgorithmName>): string {
    const locals = new Map<string, string>()
    let definitions = ''
    const define = (name: string): string => {
      const { lua, takes } = this.#chunks[name] as Chunks[string]
      const taken = takes.map((other) => locals.get(other) ?? define(other))
      const local = `chunk_${locals.size + 1}`
      locals.set(name, local)
      definitions += `local ${local} = ${callChunk(lua, taken)}\n`
      return local
    }
    const modules = [...algorithms].map((name) => `${ALGORITHMS[name].letter} = ${define(name)}`)
    const { lua, takes } = this.#chunks[main] as Chunks[string]
    const taken = takes.map((name) => (name in this.#chunks ? define(name) : 'nil'))
    const values = [`{ ${modules.join(', ')} }`, callChunk(this.#clock), ...taken].join(', ')
    // The main chunk has no function of its own: Redis would make it for each call.
    return definitions + lua.replace('...', () => values)
  }
}

export function callChunk(lua: string, values: readonly string[] = []): string {
  // Lua 5.1 makes a table for an unused `...`.
  const parameters = values.length > 0 ? '...' : ''
  return `(function(${parameters})\n${lua}\nend)(${values.join(', ')})`
}

/**
 * Makes ARGV of `lua/decide.lua`. Here as below, KEYS are those of the charges, in order.
 * @param isLong whether a stream is expected to hold many entries in each window
 */
export function scriptArguments(
  { mode, permits, leaseMs = 0, rules }: DecisionRequest,
  isLong: (rule: StoreCharge) => boolean = () => false,
): (string | number)[] {
  const args: (string | number)[] = [mode, permits, leaseMs]
  for (const rule of rules) {
    const numbers = listNumbers(rule)
    if (isLong(rule)) numbers.push(1)
    args.push(encodeCharge(rule), numbers.length, ...numbers)
  }
  return args
}

/** It makes one argument, since each takes Redis as long as ten steps of Lua. */
function encodeCharge(rule: StoreCharge): string {
  const { algorithm, enforced, counts = 'requests', cost, reserved } = rule
  const block = readPenaltySettings(rule)
  const power = block ? 'block' : enforced ? 'enforce' : 'shadow'
  const terms = `${ALGORITHMS[algorithm].letter} ${power} ${counts} ${cost} ${reserved}`
  return block ? `${terms} ${block.blockMs} ${block.after}` : terms.replace(' enforce requests 1 0', '')
}

export function settleArguments(differences: readonly Adjustment[], chargedAtMs: number): (string | number)[] {
  const perRule = differences.flatMap(({ rule, units }) => {
    const numbers = listNumbers(rule)
    return [ALGORITHMS[rule.algorithm].letter, units, numbers.length, ...numbers]
  })
  return [chargedAtMs, ...perRule]
}

export function renewArguments(rules: readonly StoreCharge[]): number[] {
  return rules.flatMap(({ tiers, slot = 0, cost }) => [tiers[0]?.windowMs ?? 0, slot, cost])
}

export function releaseArguments(releases: readonly Release[]): (string | number)[] {
  return releases.flatMap(({ rule: { slot = 0, cost }, isKnown }) => [slot, cost, isKnown ? 'known' : 'unknown'])
}

export function slotMembers({ slot, cost }: StoreCharge): string[] {
  return Array.from({ length: cost }, (_, index) => `${slot}:${index + 1}`)
}

/** The arguments of the algorithm's module, as its header says. */
function listNumbers({ tiers, burst, slot }: StoreCharge): number[] {
  const numbers: number[] = []
  for (const { limit, windowMs } of tiers) numbers.push(limit, windowMs)
  if (burst !== undefined) numbers.push(burst)
  if (slot !== undefined) numbers.push(slot)
  return numbers
}

/** A shadow rule blocks nobody. */
function readPenaltySettings({ block, enforced }: StoreCharge): PenaltySettings | undefined {
  return enforced ? block : undefined
}

/** @throws {StoreError} if the reply is not one to this request */
export function readDecision(reply: unknown, request: DecisionRequest): Decision {
  const { permits, rules } = request
  const size = rules.reduce((sum, rule) => sum + 3 * rule.tiers.length + (readPenaltySettings(rule) ? 1 : 0), 2)
  if (!Array.isArray(reply) || reply.length !== size || !reply.every(isCount)) {
    throw new StoreError('Redis answered something other than a decision')
  }
  let at = 0
  const next = () => reply[at++] as number
  const granted = next()
  if (granted > permits) throw new StoreError('Redis granted a number of permits that was not asked for')
  const nowMs = next()
  const usage = mapList(rules, (rule) => {
    const tiers = mapList(rule.tiers, (): LimitState => ({ remaining: next(), resetMs: next(), retryAfterMs: next() }))
    const blockedMs = readPenaltySettings(rule) ? next() : 0
    return blockedMs === 0 ? tiers : tiers.map((tier) => ({ ...tier, blockedMs }))
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
function isConsistent({ mode, permits, rules }: DecisionRequest, { granted, nowMs, usage }: Decision): boolean {
  let isRefused = false
  for (const [index, { enforced, tiers, burst }] of rules.entries()) {
    for (const [at, { remaining, retryAfterMs, blockedMs }] of (usage[index] ?? []).entries()) {
      const max = burst ?? tiers[at]?.limit ?? 0
      if (remaining > max || (blockedMs !== undefined && retryAfterMs < blockedMs)) return false
      isRefused ||= enforced && retryAfterMs > 0 && mode !== 'charge'
    }
  }
  const isWhole = mode === 'partial' || granted === 0 || granted === permits
  return nowMs > 0 && isRefused === (granted === 0) && isWhole
}
