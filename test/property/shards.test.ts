/** The laws of several databases: what they count, also while some are added or removed. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { findShard, withShards } from '../../src/core/engine/places/shards.ts'
import type { Decision, DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import { type Shard, type Store, StoreError } from '../../src/core/model/store.ts'
import { Calls, type Drawn, step } from '../support/calls.ts'
import { createCharge, storeWith, take } from '../support/charges.ts'
import { MemoryScript } from '../support/memory-script.ts'
import { expectProperty } from '../support/property.ts'
import { type Admission, expectNoWindowOver } from '../support/windows.ts'

const WINDOW_MS = 1_000
const TOKENS = 4
/** Before, while both layouts count, and after. */
const PHASES = ['old', 'both', 'new'] as const
type Phase = (typeof PHASES)[number]

const anyStep = fc.oneof(
  // An isolate that has the newer settings of a change, or not yet; the answer to its nth call may be lost.
  step(4, ['ask'], {
    isNewer: fc.boolean(),
    token: fc.nat(TOKENS - 1),
    hasAll: fc.boolean(),
    lost: fc.oneof({ weight: 9, arbitrary: fc.constant(-1) }, { weight: 1, arbitrary: fc.nat(3) }),
  }),
  step(5, ['run', 'deliver'], { index: fc.nat(8) }),
  step(2, ['wait'], { ms: fc.nat(120) }),
)
const anySteps = fc.array(anyStep, { minLength: 20, maxLength: 60 })
const anyPlay = fc.record({
  /** Databases that stay, leave and join. */
  counts: fc.record({ stay: fc.nat(2), leave: fc.nat(2), join: fc.nat(2) }).filter(({ stay, leave, join }) => {
    return stay + leave > 0 && stay + join > 0 && leave + join > 0
  }),
  aheadMs: fc.array(fc.integer({ min: -200, max: 200 }), { minLength: 6, maxLength: 6 }),
  /** By phase: while all isolates have its settings, and while some have those of the next one. */
  steps: fc.array(anySteps, { minLength: 5, maxLength: 5 }),
  salt: fc.nat(1e6),
})
type Play = Drawn<typeof anyPlay>

/** Runs each call where it was sent. */
class Databases extends MemoryScript {
  readonly runs = new WeakMap<DecisionRequest, (nowUs: number) => Promise<Decision>>()

  override decide(request: DecisionRequest, nowUs: number): Promise<Decision> {
    return this.runs.get(request)?.(nowUs) ?? super.decide(request, nowUs)
  }
}

/** Databases, each with a clock of its own, whose calls run and are answered in any order. */
class Network extends Calls {
  /** Units charged, by shard and key. */
  readonly charged = new Map<string, number>()
  readonly #databases: Databases

  constructor(databases = new Databases()) {
    super(databases)
    this.#databases = databases
  }

  createShard(name: string, aheadMs: number): Shard & { readonly store: Store } {
    const script = new MemoryScript()
    const decide = (request: DecisionRequest) => {
      this.#databases.runs.set(request, (nowUs) => script.decide(request, nowUs + aheadMs * 1000))
      return this.send(request, ({ granted }) => {
        for (const { key } of request.action === 'peek' ? [] : request.charges) {
          this.charged.set(`${name} ${key}`, (this.charged.get(`${name} ${key}`) ?? 0) + granted)
        }
        return undefined
      })
    }
    return { name, store: storeWith({ decide }) }
  }
}

/** @param bothMs for how long no isolate has the old settings, and none the new ones */
async function playMove({ counts, aheadMs, steps, salt }: Play, bothMs: number): Promise<void> {
  const network = new Network()
  const names = (kind: string, count: number) => Array.from({ length: count }, (_, n) => `${kind}${n}`)
  const shards = (['stay', 'leave', 'join'] as const)
    .flatMap((kind) => names(kind, counts[kind]))
    .map((name, at) => network.createShard(name, aheadMs[at] ?? 0))
  const hasKind = (kind: string) => (shard: Shard) => shard.name.startsWith(kind)
  const layouts: Readonly<Record<Phase, readonly (Shard & { readonly store: Store })[]>> = {
    old: shards.filter((shard) => !hasKind('join')(shard)),
    both: shards.map((shard) => ({
      ...shard,
      state: hasKind('join')(shard) ? 'joining' : hasKind('leave')(shard) ? 'leaving' : undefined,
    })),
    new: shards.filter((shard) => !hasKind('leave')(shard)),
  }
  const key = (name: string) => `test:${name}:{${salt}${name}}`
  const token = (at: number) =>
    createCharge('sliding-window', [{ limit: 3, windowMs: WINDOW_MS }], { key: key(`t${at}`) })
  const all = createCharge('sliding-window', [{ limit: 8, windowMs: WINDOW_MS }], { key: key('all') })
  const admitted = new Map<string, Admission[]>()
  /** Units admitted, by each shard that must have charged them. */
  const owed = new Map<string, number>()
  const pending: Promise<void>[] = []

  async function ask(phase: Phase, charges: readonly StoreCharge[], lost: number): Promise<void> {
    const sentMs = network.nowMs
    let calls = 0
    const layout = layouts[phase].map((shard) => ({
      ...shard,
      store: storeWith({
        decide: async (request) => {
          const isLost = calls++ === lost
          const decision = await shard.store.decide(request)
          if (isLost) throw new StoreError('lost')
          return decision
        },
      }),
    }))
    const store = withShards(layout, { timeoutMs: 1_000_000, now: () => network.nowMs, log() {} })
    const granted = await store.decide(take(charges)).then(
      (decision) => decision.granted,
      (error: unknown) => {
        if (!(error instanceof StoreError)) throw error
        return 0
      },
    )
    if (granted === 0) return
    for (const { key } of charges) {
      admitted.set(key, [...(admitted.get(key) ?? []), { ms: sentMs, latestMs: network.nowMs, cost: 1 }])
      const tag = key.slice(key.lastIndexOf('{'))
      const counting = [layouts.old, layouts.new].filter(
        (_, at) => phase === 'both' || (phase === 'old') === (at === 0),
      )
      for (const name of new Set(counting.map((shards) => findShard(tag, shards).name))) {
        owed.set(`${name} ${key}`, (owed.get(`${name} ${key}`) ?? 0) + 1)
      }
    }
  }

  const periods: readonly (readonly [Phase, Phase])[] = [
    ['old', 'old'],
    ['old', 'both'],
    ['both', 'both'],
    ['both', 'new'],
    ['new', 'new'],
  ]
  for (const [at, [older, newer]] of periods.entries()) {
    const startedMs = network.nowMs
    for (const step of steps[at] ?? []) {
      if (step.kind === 'wait') network.nowMs += step.ms
      else if (step.kind !== 'ask') await network[step.kind](step.index)
      else {
        const charges = [token(step.token), ...(step.hasAll ? [all] : [])]
        pending.push(ask(step.isNewer ? newer : older, charges, step.lost))
        await new Promise(setImmediate)
      }
    }
    // The calls of those that had the settings before have ended.
    while (!network.isQuiet) await network.settle()
    if (older === 'both' && newer === 'both') network.nowMs = Math.max(network.nowMs, startedMs + bothMs)
  }
  await Promise.all(pending)
  for (const { key, limits } of [...Array.from({ length: TOKENS }, (_, at) => token(at)), all]) {
    for (const { limit } of limits) expectNoWindowOver(limit, WINDOW_MS, admitted.get(key) ?? [])
  }
  for (const [place, units] of owed) expect(network.charged.get(place) ?? 0).toBeGreaterThanOrEqual(units)
}

test('no window is over its limit while databases join and leave, whatever settings an isolate has', async () => {
  await expectProperty(
    fc.asyncProperty(anyPlay, (play) => playMove(play, WINDOW_MS)),
    1_000,
  )
})

test('without a longest window in which both layouts count, one would be', async () => {
  const { failed } = await fc.check(
    fc.asyncProperty(anyPlay, (play) => playMove({ ...play, steps: play.steps.with(2, []) }, 0)),
    { numRuns: 2_000, endOnFailure: true },
  )
  expect(failed).toBe(true)
})

test('a shard that joins takes its share, and nothing else moves', () => {
  const names = Array.from({ length: 8 }, (_, n) => ({ name: `eu${n}` }))
  const tags = Array.from({ length: 20_000 }, (_, n) => `{${Buffer.from(`${n}`.padStart(16)).toString('base64url')}}`)
  for (let size = 1; size < names.length; size++) {
    const [before, after] = [names.slice(0, size), names.slice(0, size + 1)]
    const held = new Map<string, number>()
    let moved = 0
    for (const tag of tags) {
      const [one, other] = [findShard(tag, before), findShard(tag, after)]
      held.set(other.name, (held.get(other.name) ?? 0) + 1)
      if (one !== other) {
        expect(other).toBe(names[size])
        moved++
      }
      expect(findShard(tag, after.toReversed())).toBe(other)
    }
    const share = tags.length / (size + 1)
    expect(Math.abs(moved - share)).toBeLessThan(share / 10)
    for (const count of held.values()) expect(Math.abs(count - share)).toBeLessThan(share / 10)
  }
})
