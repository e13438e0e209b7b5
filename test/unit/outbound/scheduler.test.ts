import { describe, expect, test, vi } from 'vitest'
import { createLimiter } from '../../../src/index.ts'
import type { ObservedCall, OutboundLimiter } from '../../../src/outbound/options.ts'
import { OutboundError, throttle } from '../../../src/outbound.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

interface Job {
  readonly id: string
  readonly cost?: number
  readonly priority?: 'critical' | 'default' | 'sheddable'
  readonly caller?: string
  readonly maxWaitMs?: number
  readonly signal?: AbortSignal
}

/** A throttled function that notes when it was called for which job. */
function site({
  limit = 2,
  windowMs = 1_000,
  maxQueued = 100,
  limiter = undefined as OutboundLimiter | undefined,
} = {}) {
  const clock = new VirtualClock()
  const startMs = clock.now()
  const now = () => clock.now()
  const requested: number[] = []
  const real = limiter ?? createLimiter({ limits: `${limit}/${windowMs}ms`, now })
  const counting: OutboundLimiter = {
    take(identity, options) {
      requested.push(clock.now() - startMs)
      return real.take(identity, options)
    },
  }
  const log: string[] = []
  const call = throttle(
    async ({ id }: Job) => {
      log.push(`${id}@${clock.now() - startMs}`)
      return id
    },
    {
      limiter: counting,
      identity: 'partner',
      cost: ({ cost = 1 }) => cost,
      priority: ({ priority = 'default' }) => priority,
      tenant: ({ caller = '' }) => caller,
      maxWaitMs: ({ maxWaitMs = Number.POSITIVE_INFINITY }) => maxWaitMs,
      signal: ({ signal }) => signal,
      maxQueued,
      clock,
    },
  )
  return { clock, log, requested, call }
}

function readOutcome(work: Promise<unknown>): Promise<unknown> {
  return work.catch((error: unknown) => error)
}

test('calls go exactly when the limiter lets them, in order, and it is called only then', async () => {
  const { clock, log, requested, call } = site()
  const all = Promise.all(['a', 'b', 'c', 'd', 'e'].map((id) => call({ id })))
  expect(await clock.finish(all)).toEqual(['a', 'b', 'c', 'd', 'e'])
  expect(log).toEqual(['a@0', 'b@0', 'c@1000', 'd@1000', 'e@2000'])
  expect(requested).toEqual([0, 0, 0, 1_000, 1_000, 1_000, 2_000])
})

test('the more important go first, and callers take turns', async () => {
  const { clock, log, call } = site({ limit: 1 })
  const jobs: Job[] = [
    { id: 'first' },
    { id: 's', priority: 'sheddable' },
    { id: 'a1', caller: 'a' },
    { id: 'a2', caller: 'a' },
    { id: 'b1', caller: 'b' },
    { id: 'c', priority: 'critical' },
  ]
  await clock.finish(Promise.all(jobs.map(call)))
  expect(log.map((line) => line.split('@')[0])).toEqual(['first', 'c', 'a1', 'b1', 'a2', 's'])
})

test('a more important call that needs less does not wait for what was requested before', async () => {
  const { clock, log, call } = site({ limit: 3 })
  const first = call({ id: 'first', cost: 2 })
  await clock.advance(0)
  const large = call({ id: 'large', cost: 3 })
  await clock.advance(500)
  const small = call({ id: 'small', priority: 'critical' })
  await clock.finish(Promise.all([first, large, small]))
  expect(log).toEqual(['first@0', 'small@500', 'large@1500'])
})

describe('a deadline', () => {
  test('that cannot be kept fails at once, with the time that it would take', async () => {
    const { clock, log, call } = site({ limit: 1 })
    await clock.finish(call({ id: 'a' }))
    const b = readOutcome(call({ id: 'b', maxWaitMs: 999 }))
    await clock.advance(0)
    expect(await b).toMatchObject({ name: 'OutboundError', code: 'WAIT_TOO_LONG', retryAfterMs: 1_000 })
    const c = call({ id: 'c', maxWaitMs: 1_000 })
    await clock.advance(0)
    // It hears of the wait that c has learned of.
    expect(await readOutcome(call({ id: 'd', maxWaitMs: 500 }))).toMatchObject({ retryAfterMs: 1_000 })
    await clock.finish(c)
    expect(log).toEqual(['a@0', 'c@1000'])
  })

  test('of 0 is for what can be had now', async () => {
    const { clock, log, call } = site({ limit: 1 })
    await clock.finish(call({ id: 'a', maxWaitMs: 0 }))
    const late = readOutcome(call({ id: 'b', maxWaitMs: 0 }))
    expect(await clock.finish(late)).toMatchObject({ code: 'WAIT_TOO_LONG' })
    expect(log).toEqual(['a@0'])
  })

  test('that passes while others go first fails when it passes', async () => {
    const { clock, log, call } = site({ limit: 1 })
    const others = Promise.all(['a', 'b', 'c'].map((id) => call({ id })))
    await clock.advance(0)
    let reportedAtMs = 0
    const startMs = clock.now()
    const late = readOutcome(call({ id: 'late', maxWaitMs: 1_500 })).then((outcome) => {
      reportedAtMs = clock.now() - startMs
      return outcome
    })
    await clock.finish(others)
    const outcome = await late
    expect(outcome).toBeInstanceOf(OutboundError)
    // At 1000 it is known that nobody goes before 2000.
    expect(reportedAtMs).toBe(1_000)
    expect(log).toEqual(['a@0', 'b@1000', 'c@2000'])
  })
})

describe('a signal', () => {
  test('ends a wait with its reason, and the next one has its turn', async () => {
    const { clock, log, call } = site({ limit: 1 })
    const controller = new AbortController()
    await clock.finish(call({ id: 'a' }))
    const b = readOutcome(call({ id: 'b', signal: controller.signal }))
    const c = call({ id: 'c' })
    await clock.advance(400)
    controller.abort('enough')
    expect(await b).toBe('enough')
    await clock.finish(c)
    expect(log).toEqual(['a@0', 'c@1000'])
  })

  test('that is aborted already ends it before it begins', async () => {
    const { call, requested } = site()
    expect(await readOutcome(call({ id: 'a', signal: AbortSignal.abort('no') }))).toBe('no')
    expect(requested).toEqual([])
  })

  test('does not lose what was granted meanwhile: the next call has it', async () => {
    const grants: (() => void)[] = []
    const limiter: OutboundLimiter = {
      take: () => new Promise((resolve) => grants.push(() => resolve({ granted: true, retryAfterMs: 0 }))),
    }
    const { clock, log, call } = site({ limiter })
    const controller = new AbortController()
    const a = readOutcome(call({ id: 'a', signal: controller.signal }))
    const b = call({ id: 'b' })
    await clock.advance(0)
    controller.abort()
    grants[0]?.()
    await a
    expect(await b).toBe('b')
    expect(grants).toHaveLength(1)
    expect(log).toEqual(['b@0'])
  })
})

test('of too many that wait, the least important is given up', async () => {
  const { clock, log, call } = site({ limit: 1, maxQueued: 2 })
  await clock.finish(call({ id: 'a' }))
  const b = call({ id: 'b' })
  const s = readOutcome(call({ id: 's', priority: 'sheddable' }))
  const c = call({ id: 'c' })
  const d = readOutcome(call({ id: 'd' }))
  expect(await s).toMatchObject({ name: 'OutboundError', code: 'QUEUE_FULL' })
  expect(await d).toMatchObject({ code: 'QUEUE_FULL' })
  await clock.finish(Promise.all([b, c]))
  expect(log).toEqual(['a@0', 'b@1000', 'c@2000'])
})

test('an error of the limiter is the call’s own, and the next call starts again', async () => {
  let count = 0
  const limiter: OutboundLimiter = {
    async take() {
      if (count++ === 0) throw new Error('no answer')
      return { granted: true, retryAfterMs: 0 }
    },
  }
  const { call } = site({ limiter })
  const [a, b] = await Promise.all([readOutcome(call({ id: 'a' })), call({ id: 'b' })])
  expect(a).toEqual(new Error('no answer'))
  expect(b).toBe('b')
})

test('an error of the function is the call’s own', async () => {
  const limiter = { take: async () => ({ granted: true, retryAfterMs: 0 }) }
  const failing = throttle(() => Promise.reject(new Error('mine')), { limiter, identity: 'a' })
  await expect(failing()).rejects.toThrow('mine')
})

test('a function is called as a method of what it was called on', async () => {
  const counter = {
    count: 5,
    read: throttle(
      function (this: { readonly count: number }, more: number) {
        return this.count + more
      },
      { limits: '10/1s' },
    ),
  }
  expect(await counter.read(2)).toBe(7)
})

test('concurrency bounds the calls under way', async () => {
  const clock = new VirtualClock()
  let [current, highest] = [0, 0]
  const work = async () => {
    highest = Math.max(highest, ++current)
    await clock.sleep(100)
    current--
  }
  const call = throttle(work, { concurrency: 3, clock })
  const startMs = clock.now()
  await clock.finish(Promise.all(Array.from({ length: 10 }, () => call())))
  expect([highest, clock.now() - startMs]).toEqual([3, 400])
})

test('onWait reports waits of a second or longer, and why', async () => {
  const clock = new VirtualClock()
  const waits: unknown[] = []
  const call = throttle(() => {}, { limits: '1/5s', clock, onWait: (wait) => waits.push(wait) })
  await clock.finish(Promise.all([call(), call(), call()]))
  expect(waits).toEqual([
    { resource: '', reason: 'limiter', waitMs: 5_000, waiting: 2 },
    { resource: '', reason: 'limiter', waitMs: 5_000, waiting: 1 },
  ])
})

test('onDecision gets the end of each wait', async () => {
  const clock = new VirtualClock()
  const ends: ObservedCall[] = []
  const limits = { limits: '1/5s', maxQueued: 2, clock, onDecision: (decision: ObservedCall) => ends.push(decision) }
  const call = throttle((_: Job) => {}, { ...limits, maxWaitMs: ({ maxWaitMs = 60_000 }) => maxWaitMs })
  const stop = new AbortController()
  const aborted = throttle(() => {}, { ...limits, signal: stop.signal })
  stop.abort()
  const jobs = [{ id: 'a' }, { id: 'b' }, { id: 'c', maxWaitMs: 1_000 }, { id: 'd' }, { id: 'e' }]
  await clock.finish(Promise.allSettled([...jobs.map((job) => call(job)), aborted()]))
  const shared = { resource: '', cost: 1 }
  const find = (outcome: ObservedCall['outcome']) => ends.filter((end) => end.outcome === outcome)
  expect(find('started').map(({ durationMs }) => durationMs)).toEqual([0, 5_000, 10_000])
  expect(find('started')[0]).toEqual({ ...shared, outcome: 'started', retryAfterMs: undefined, durationMs: 0 })
  expect(find('failed')).toEqual([{ ...shared, outcome: 'failed', retryAfterMs: undefined, durationMs: 0 }])
  expect(find('QUEUE_FULL').length + find('WAIT_TOO_LONG').length).toBe(2)
  expect(ends.length).toBe(6)
})

test.each(['onDecision', 'onWait'])('what %s throws is logged, and holds no call up', async (name) => {
  const clock = new VirtualClock()
  const write = vi.spyOn(console, 'error').mockReturnValue()
  const hook = () => {
    throw new Error('broken')
  }
  const call = throttle(() => 'done', { limits: '1/5s', clock, [name]: hook })
  expect(await clock.finish(Promise.all([call(), call()]))).toEqual(['done', 'done'])
  expect(write.mock.calls[0]).toEqual([JSON.stringify({ event: 'background_error', message: `${name}: broken` })])
  write.mockRestore()
})

test('a signal that many calls share has one listener', async () => {
  const clock = new VirtualClock()
  const { signal } = new AbortController()
  const add = vi.spyOn(signal, 'addEventListener')
  const call = throttle(() => {}, { limits: '10/1s', clock, signal })
  await clock.finish(Promise.all(Array.from({ length: 30 }, () => call())))
  expect(add).toHaveBeenCalledTimes(1)
})

test('a call of less cost than one that was refused still fails when its time is up while the limiter is called', async () => {
  const clock = new VirtualClock()
  const startMs = clock.now()
  const exact = createLimiter({ limits: '8/1s', now: () => clock.now() })
  const limiter: OutboundLimiter = {
    async take(identity, options) {
      await clock.sleep(0)
      return exact.take(identity, options)
    },
  }
  const call = throttle(async (cost: number, _maxWaitMs: number) => cost, {
    ...{ limiter, identity: 'a', clock },
    cost: (cost) => cost,
    priority: (cost) => (cost === 1 ? 'critical' : 'default'),
    maxWaitMs: (_, maxWaitMs) => maxWaitMs,
  })
  const waits = Number.POSITIVE_INFINITY
  const others = [call(8, waits), call(2, waits)]
  const late = clock.sleep(3).then(() => call(1, 0))
  const failed = late.catch((error: OutboundError) => [error.code, clock.now() - startMs])
  await clock.finish(Promise.all([failed, ...others]))
  expect(await failed).toEqual(['WAIT_TOO_LONG', 3])
})
