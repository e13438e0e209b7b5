import { expect, test } from 'vitest'
import { type MirrorCount, withMirror } from '../../src/core/engine/stages/mirror.ts'
import type { DecisionRequest } from '../../src/core/model/charge.ts'
import { type Store, StoreError } from '../../src/core/model/store.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { callContext } from '../support/call-context.ts'
import { createCharge, take } from '../support/charges.ts'

const HOUR = [{ limit: 2, windowMs: 3_600_000 }]

function subject(shadow: Store = new MemoryStore(() => 1_800_000_000_000), clock = { now: 1_800_000_000_000 }) {
  const store = new MemoryStore(() => clock.now)
  const lines: object[] = []
  const now = () => clock.now
  const log = (level: string, fields: object) => lines.push({ level, ...fields })
  const counts = { decisions: 0, refusedByMirrorOnly: 0, refusedByPrimaryOnly: 0, failures: 0 }
  const watch = { onMirrored: (what: MirrorCount) => counts[what]++ }
  const alongside = withMirror(store, { mirror: shadow, now, timeoutMs: 100, watch, log })
  return { alongside, counts, store, shadow, clock, lines }
}

/** Fails at every call, or never answers any. */
function broken(answer: () => Promise<never>): Store {
  return {
    kind: 'broken',
    ...{ decide: answer, release: answer, revoke: answer, renew: answer, settle: answer, delete: answer, ping: answer },
  }
}

test.each([
  ['fails', () => Promise.reject(new StoreError('it is unavailable'))],
  ['never answers', () => new Promise<never>(() => {})],
] as const)('withMirror() decides the same, at once, while the mirror %s', async (_name, answer) => {
  const { alongside } = subject(broken(answer))
  const [quota, slots] = [createCharge('quota', HOUR, { needsSettlement: true }), createCharge('concurrency', HOUR)]
  const granted: number[] = []
  for (let i = 0; i < 3; i++) {
    const request = take([quota, slots])
    const context = callContext()
    const decision = await alongside.decide(request, context)
    granted.push(decision.granted)
    if (decision.granted === 0) continue
    const [own] = request.charges
    await alongside.settle([{ charge: own ?? quota, units: 0 }], decision.nowMs)
    await alongside.renew(request.charges.slice(1))
    await alongside.release(request.charges.slice(1))
  }
  expect(granted).toEqual([1, 1, 0])
})

test('withMirror() counts what the mirror would do otherwise, and its failures', async () => {
  const { alongside, counts, shadow, clock, lines } = subject()
  const charge = createCharge('sliding-window', HOUR)
  const background: Promise<unknown>[] = []
  const ask = () => alongside.decide(take([charge]), callContext(background))
  // One more than the store knows of.
  await shadow.decide(take([charge]))
  for (let i = 0; i < 3; i++) await ask()
  await shadow.delete([charge.key])
  clock.now += 60_000
  await ask()
  await Promise.all(background)
  expect(counts).toEqual({ decisions: 4, refusedByMirrorOnly: 1, refusedByPrimaryOnly: 1, failures: 0 })
  expect(lines).toEqual([{ level: 'info', event: 'mirror', ...counts }])

  const failing = subject(broken(() => Promise.reject(new StoreError('it is unavailable'))))
  await failing.alongside.decide(take([charge]), callContext(background))
  await Promise.all(background)
  expect(failing.counts).toMatchObject({ decisions: 0, failures: 1 })
  expect(failing.lines).toEqual([{ level: 'warn', event: 'mirror_error', message: 'it is unavailable' }])
})

test('withMirror() charges the mirror for new identities that are new to the store', async () => {
  const { alongside, shadow } = subject()
  const known = createCharge('sliding-window', HOUR)
  const newIdentities = createCharge('sliding-window', [{ limit: 9, windowMs: 3_600_000 }], {
    counts: 'new-identities',
  })
  const background: Promise<unknown>[] = []
  // New to the store, not to its shadow.
  await shadow.decide(take([known]))
  await alongside.decide(take([known, newIdentities]), callContext(background))
  await alongside.decide(take([known, newIdentities]), callContext(background))
  await Promise.all(background)
  const { counts: _, ...charge } = newIdentities
  expect((await shadow.decide(take([charge], { action: 'peek' }))).usage[0]?.[0]?.remaining).toBe(8)
})

test('withMirror() reports a penalty when the mirror is slow or unavailable for a moment, less the time lost', async () => {
  const clock = { now: 1_800_000_000_000 }
  const memory = new MemoryStore(() => clock.now)
  const slow: Store = Object.assign(Object.create(memory), {
    decide: async (request: DecisionRequest) => {
      if (request.action !== 'peek') return memory.decide(request)
      clock.now += 400
      throw new StoreError('it is unavailable')
    },
  })
  const { alongside, counts } = subject(slow, clock)
  const charge = createCharge('quota', HOUR, { penalty: { durationMs: 1_000, after: 1 } })
  const background: Promise<unknown>[] = []
  await alongside.decide(take([{ ...charge, cost: 3 }]), callContext(background))
  await Promise.all(background)
  expect((await memory.decide(take([charge]))).usage[0]?.[0]?.penaltyMs).toBe(600)
  expect(counts).toMatchObject({ failures: 1 })
})

test('a slot is free in the mirror, too, if its charge arrives there after its release', async () => {
  let arrive = () => {}
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve
  })
  const memory = new MemoryStore(() => 1_800_000_000_000)
  const late: Store = Object.assign(Object.create(memory), {
    decide: async (request: DecisionRequest) => {
      await arrived
      return memory.decide(request)
    },
    release: (...requested: Parameters<Store['release']>) => memory.release(...requested),
    revoke: (...requested: Parameters<Store['revoke']>) => memory.revoke(...requested),
  })
  const { alongside } = subject(late)
  const charge = createCharge('concurrency', HOUR)
  const background: Promise<unknown>[] = []
  const request = take([charge])
  await alongside.decide(request, callContext(background))
  await alongside.release(request.charges)
  arrive()
  await Promise.all(background)
  expect((await memory.decide(take([charge], { action: 'peek' }))).usage[0]?.[0]?.remaining).toBe(2)
})
