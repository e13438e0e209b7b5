import { expect, test } from 'vitest'
import { type MirrorCount, withMirror } from '../../src/core/engine/stages/mirror.ts'
import type { Decision, DecisionRequest, StoreCharge } from '../../src/core/model/charge.ts'
import { type Store, StoreError } from '../../src/core/model/store.ts'
import type { CallContext } from '../../src/core/runtime/call-context.ts'
import { MemoryStore } from '../../src/core/store/memory/memory-store.ts'
import { callContext } from '../support/call-context.ts'
import { createCharge, storeWith, take } from '../support/charges.ts'

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

// What is sent to the mirror, whatever a store may have decided

const ROOM = { remaining: 2, resetMs: 9, retryAfterMs: 0 }
const FULL = { remaining: 0, resetMs: 9, retryAfterMs: 7 }
const STORE_MS = 500
const MIRROR_MS = 700

/** A store that decides as it is told, beside a mirror that notes its calls and answers as it is told. */
function scripted(decision: Partial<Decision>, answer: Partial<Decision> | Error = {}) {
  const clock = { now: 1_000 }
  const calls: unknown[] = []
  const received: { request: DecisionRequest; context: CallContext | undefined }[] = []
  const ofStore: unknown[] = []
  const whole: Decision = { granted: 1, nowMs: STORE_MS, usage: [[ROOM]], ...decision }
  const note =
    (list: unknown[], name: string) =>
    async (...args: unknown[]) =>
      void list.push([name, ...args])
  const noting = (list: unknown[]) =>
    Object.fromEntries(['release', 'revoke', 'renew', 'settle', 'delete'].map((name) => [name, note(list, name)]))
  const store = storeWith({ ...noting(ofStore), decide: async () => whole })
  const mirror = storeWith({
    ...noting(calls),
    async decide(request, context) {
      received.push({ request, context })
      if (answer instanceof Error) throw answer
      return { granted: 1, nowMs: MIRROR_MS, usage: [[ROOM]], ...answer }
    },
  })
  const counted: MirrorCount[] = []
  const lines: object[] = []
  const alongside = withMirror(store, {
    mirror,
    now: () => clock.now,
    timeoutMs: 100,
    watch: { onMirrored: (what) => counted.push(what) },
    log: (level, fields) => lines.push({ level, ...fields }),
  })
  const background: Promise<unknown>[] = []
  const context = callContext(background)
  const decide = async (request: DecisionRequest) => {
    expect(await alongside.decide(request, context)).toBe(whole)
    await Promise.all(background)
  }
  const sent = () => received.map(({ request }) => request)
  return { alongside, clock, calls, received, sent, ofStore, counted, lines, background, context, decide }
}

test('withMirror() records what was granted, with its lease if it has one, and asks the mirror about nothing else', async () => {
  const charge = createCharge('sliding-window', HOUR)
  const part = scripted({ granted: 2 })
  await part.decide(take([charge], { action: 'take-up-to', permits: 5, leaseMs: 40 }))
  expect(part.sent()).toStrictEqual([{ action: 'record', permits: 2, charges: [charge], leaseMs: 40 }])
  const plain = scripted({})
  await plain.decide(take([charge]))
  expect(plain.sent()).toStrictEqual([{ action: 'record', permits: 1, charges: [charge] }])
  const peeked = scripted({})
  await peeked.decide(take([charge], { action: 'peek' }))
  expect([peeked.sent(), peeked.counted]).toEqual([[], []])
})

test.each<[string, Partial<StoreCharge>, readonly (typeof ROOM)[], DecisionRequest['action'], boolean]>([
  ['a shadow charge that would have refused', { mode: 'shadow' }, [ROOM, FULL], 'take', false],
  ['what failures are counted of', { counts: 'failures' }, [ROOM], 'take', false],
  ['failures', { counts: 'failures' }, [ROOM], 'record', true],
  ['used units beyond a limit', {}, [FULL], 'record', true],
  ['a charge that was skipped', { counts: 'new-identities' }, [ROOM], 'take', false],
  ['one of which nothing is known', {}, [], 'take', false],
  ['another', {}, [ROOM], 'take', true],
])('withMirror() mirrors %s only if it was charged', async (_name, overrides, usage, action, isCharged) => {
  const { decide, sent, counted } = scripted({ usage: [usage] })
  await decide(take([createCharge('sliding-window', HOUR, overrides)], { action }))
  expect(sent().map((one) => one.action)).toEqual(isCharged ? ['record'] : [])
  expect(counted).toEqual(isCharged && action === 'take' ? ['decisions'] : [])
})

test.each<[string, Partial<StoreCharge>, readonly (typeof ROOM)[], DecisionRequest['action'], MirrorCount[]]>([
  ['has room', {}, [ROOM, ROOM], 'take', ['decisions']],
  ['would have refused by one of its limits', {}, [ROOM, FULL], 'take', ['decisions', 'refusedByMirrorOnly']],
  ['would have refused in shadow mode', { mode: 'shadow' }, [FULL], 'take', ['decisions']],
  ['knows nothing', {}, [], 'take', ['decisions']],
  ['was told of used units', {}, [FULL], 'record', []],
])('withMirror() compares what a mirror says that %s', async (_name, overrides, usage, action, expected) => {
  const { decide, counted } = scripted({}, { usage: [usage] })
  await decide(take([createCharge('sliding-window', HOUR, overrides)], { action }))
  expect(counted).toEqual(expected)
})

test('withMirror() asks the mirror about a refusal as a peek, for the permits without which nothing is granted', async () => {
  const charge = createCharge('sliding-window', HOUR)
  for (const [action, permits, granted] of [
    ['take', 3, 1],
    ['take-up-to', 1, 0],
  ] as const) {
    const { decide, received, sent, counted, context } = scripted({ granted: 0, usage: [[FULL]] }, { granted })
    await decide(take([charge], { action, permits: 3 }))
    expect(sent()).toStrictEqual([{ action: 'peek', permits, charges: [charge] }])
    expect(counted).toEqual(granted > 0 ? ['decisions', 'refusedByPrimaryOnly'] : ['decisions'])
    // The deadlines of the request end with its response.
    expect(received[0]?.context).toMatchObject({ waitUntil: expect.any(Function), deadlines: expect.any(Object) })
    expect(received[0]?.context?.deadlines).not.toBe(context.deadlines)
  }
})

test('withMirror() lets work of the mirror continue after the response, and goes without a context', async () => {
  const charge = createCharge('sliding-window', HOUR)
  for (const granted of [0, 1]) {
    const { alongside, received, background, context } = scripted({ granted, usage: [[granted > 0 ? ROOM : FULL]] })
    await alongside.decide(take([charge]), context)
    expect(background).toHaveLength(1)
    const work = Promise.resolve()
    received[0]?.context?.waitUntil(work)
    expect(background[1]).toBe(work)
    await alongside.decide(take([charge]))
    expect(received[1]?.context).toBeUndefined()
    expect(background).toHaveLength(2)
  }
})

const PENALTY = { durationMs: 60_000, after: 3 }
const NEVER_FITS = { cost: Number.MAX_SAFE_INTEGER, reserved: 0, counts: 'requests' }

test.each<[string, Partial<StoreCharge>, Decision['usage'][number] | undefined, Partial<Decision>, object | undefined]>(
  [
    ['a refusal that counts', {}, [ROOM, FULL], {}, { durationMs: 1, after: 1_000 }],
    ['one that has begun a penalty', {}, [{ ...FULL, penaltyMs: 500 }], {}, { durationMs: 500, after: 1 }],
    [
      'a penalty under which it would fit',
      {},
      [{ ...FULL, remaining: 9, penaltyMs: 500 }],
      {},
      { durationMs: 500, after: 1 },
    ],
    ['one that nearly is over', {}, [{ ...FULL, penaltyMs: 0.5 }], {}, { durationMs: 1, after: 1 }],
    ['one by what is reserved', { reserved: 1 }, [{ ...FULL, remaining: 2 }], {}, undefined],
    [
      'one that leaves less than is wanted',
      { cost: 2, reserved: 1 },
      [{ ...FULL, remaining: 3 }],
      {},
      { durationMs: 1, after: 1_000 },
    ],
    ['one that leaves as much as is wanted', { cost: 2, reserved: 1 }, [{ ...FULL, remaining: 4 }], {}, undefined],
    ['a charge beside the one that refuses', {}, [{ ...ROOM, remaining: 0 }], {}, undefined],
    ['a charge without a penalty', { penalty: undefined as never }, [FULL], {}, undefined],
    ['a charge in shadow mode', { mode: 'shadow' }, [FULL], {}, undefined],
    ['a provisional refusal', {}, [FULL], { isProvisional: true }, undefined],
    ['a refusal of which nothing is known', {}, undefined, {}, undefined],
  ],
)('withMirror() has the mirror remember a penalty of %s, or none', async (_name, overrides, usage, more, penalty) => {
  const charge = createCharge('sliding-window', HOUR, { penalty: PENALTY, counts: 'failures', ...overrides })
  const { decide, sent } = scripted({ granted: 0, usage: usage ? [usage] : [], ...more }, { granted: 0 })
  await decide(take([charge], { permits: 2 }))
  const [peeked, ...others] = sent()
  expect(peeked?.action).toBe('peek')
  expect(others).toStrictEqual(
    penalty ? [{ action: 'take', permits: 1, charges: [{ ...charge, ...NEVER_FITS, penalty }] }] : [],
  )
})

test('withMirror() gives back, renews and corrects in the mirror what was charged there, at its time', async () => {
  const slot = take([createCharge('concurrency', HOUR)]).charges[0] as StoreCharge
  const later = createCharge('quota', HOUR, { needsSettlement: true })
  const plain = createCharge('quota', HOUR)
  const { alongside, decide, calls, ofStore, background } = scripted({ usage: [[ROOM], [ROOM], [ROOM]] })
  await decide({ action: 'take', permits: 1, charges: [slot, later, plain] })
  const units = [
    { charge: later, units: -3 },
    { charge: plain, units: 2 },
  ]
  await alongside.renew([slot, plain])
  await alongside.settle(units, STORE_MS)
  await alongside.release([slot, plain])
  await alongside.delete(['key'])
  await Promise.all(background)
  // The decision, its call, which takes a slot, and what follows.
  expect(background).toHaveLength(5)
  expect(calls).toEqual(
    expect.arrayContaining([
      ['renew', [slot]],
      ['settle', [{ charge: later, units: -3 }], MIRROR_MS],
      ['release', [slot]],
      ['delete', ['key']],
    ]),
  )
  expect(calls).toHaveLength(4)
  expect(ofStore).toEqual([
    ['renew', [slot, plain]],
    ['settle', units, STORE_MS],
    ['release', [slot, plain]],
    ['delete', ['key']],
  ])
})

test('withMirror() revokes slots in the mirror, and corrects nothing there, if it did not answer', async () => {
  const slot = take([createCharge('concurrency', HOUR)]).charges[0] as StoreCharge
  const later = createCharge('quota', HOUR, { needsSettlement: true })
  const usage = [[ROOM], [ROOM]]
  const { alongside, decide, calls, counted, lines, background } = scripted({ usage }, new StoreError('no answer'))
  await decide({ action: 'take', permits: 1, charges: [slot, later] })
  await alongside.settle([{ charge: later, units: -3 }], STORE_MS)
  await alongside.release([slot])
  await Promise.all(background)
  expect(calls).toEqual([['revoke', [{ charge: slot, isKnown: false }]]])
  expect(counted).toEqual(['failures'])
  expect(lines).toEqual([{ level: 'warn', event: 'mirror_error', message: 'no answer' }])
})

test('withMirror() hides no fault of the program', async () => {
  const { alongside, context, background, counted } = scripted({}, new TypeError('a fault'))
  await alongside.decide(take([createCharge('quota', HOUR)]), context)
  await expect(Promise.all(background)).rejects.toThrow('a fault')
  expect(counted).toEqual([])
})

test('withMirror() deletes in both, and waits for the mirror, but not for its success', async () => {
  const { promise, reject } = withRejecter()
  const done: string[] = []
  const store = storeWith({ decide: async () => Promise.reject(), delete: async () => void done.push('store') })
  const mirror = storeWith({ decide: async () => Promise.reject(), delete: () => promise })
  const log = (level: string, fields: object) => done.push(`${level} ${JSON.stringify(fields)}`)
  const alongside = withMirror(store, { mirror, now: () => 0, timeoutMs: 100, log })
  const deleted = alongside.delete(['key']).then(() => done.push('deleted'))
  await new Promise((resolve) => setTimeout(resolve))
  expect(done).toEqual(['store'])
  reject(new StoreError('no answer'))
  await deleted
  expect(done).toEqual(['store', 'warn {"event":"mirror_error","message":"no answer"}', 'deleted'])
})

function withRejecter() {
  let reject = (_error: unknown) => {}
  const promise = new Promise<never>((_, fail) => {
    reject = fail
  })
  return { promise, reject }
}

test('withMirror() logs its counts once a minute, and those of each minute alone', async () => {
  const { decide, clock, lines } = scripted({})
  const ask = () => decide(take([createCharge('quota', HOUR)]))
  const none = { refusedByMirrorOnly: 0, refusedByPrimaryOnly: 0, failures: 0 }
  clock.now += 59_999
  await ask()
  expect(lines).toEqual([])
  clock.now += 1
  await ask()
  clock.now += 59_999
  await ask()
  const first = { level: 'info', event: 'mirror', decisions: 2, ...none }
  expect(lines).toEqual([first])
  clock.now += 1
  await ask()
  await ask()
  expect(lines).toEqual([first, first])
})

test('withMirror() logs that the mirror is back', async () => {
  const answers = [new StoreError('no answer'), undefined]
  const lines: object[] = []
  const clock = { now: 0 }
  const decision: Decision = { granted: 1, nowMs: 0, usage: [[ROOM]] }
  const mirror = storeWith({
    async decide() {
      const answer = answers.shift()
      if (answer) throw answer
      return decision
    },
  })
  const alongside = withMirror(storeWith({ decide: async () => decision }), {
    mirror,
    now: () => clock.now,
    timeoutMs: 100,
    log: (level, fields) => lines.push({ level, ...fields }),
  })
  const background: Promise<unknown>[] = []
  for (let i = 0; i < 2; i++) {
    await alongside.decide(take([createCharge('quota', HOUR)]), callContext(background))
    await Promise.all(background)
    clock.now += 5_000
  }
  expect(lines).toEqual([
    { level: 'warn', event: 'mirror_error', message: 'no answer' },
    { level: 'info', event: 'mirror_recovered' },
  ])
})
