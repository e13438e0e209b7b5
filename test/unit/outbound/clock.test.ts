import { afterEach, expect, test, vi } from 'vitest'
import { systemClock } from '../../../src/outbound/clock.ts'
import { outbound, throttle } from '../../../src/outbound.ts'

type Fakes = NonNullable<Parameters<typeof vi.useFakeTimers>[0]>['toFake']

afterEach(() => {
  vi.useRealTimers()
})

// The second are those of node:test, which leaves performance.now() as it is.
test.each<[Fakes]>([[undefined], [['setTimeout', 'clearTimeout', 'Date']], [['setTimeout', 'clearTimeout']]])(
  'waits end when a test lets its timers fire: %j',
  async (toFake) => {
    vi.useFakeTimers(toFake && { toFake })
    const done: string[] = []
    const work = throttle(async (name: string) => done.push(name), { limits: '1/5s' })
    const answers = [new Response(null, { status: 429, headers: { 'Retry-After': '7' } }), new Response('yes')]
    const call = outbound(async () => answers.shift() as Response)
    const texts = call('https://api.example/').then((response) => response.text())
    const all = Promise.all([work('a'), work('b'), work('c')])
    await vi.advanceTimersByTimeAsync(4_900)
    expect(done).toEqual(['a'])
    await vi.advanceTimersByTimeAsync(5_200)
    expect(done).toEqual(['a', 'b', 'c'])
    expect(await texts).toBe('yes')
    await all
  },
)

test('waits end while the date stands still', async () => {
  vi.useFakeTimers({ toFake: ['Date'], now: 0 })
  const work = throttle(() => 'done', { limits: '1/20ms' })
  expect(await Promise.all([work(), work(), work()])).toEqual(['done', 'done', 'done'])
})

test('a time that has passed sets no timer of a negative duration', async () => {
  const warnings: unknown[] = []
  const set = vi.spyOn(globalThis, 'setTimeout')
  await new Promise<void>((resolve) => systemClock.after(-5, resolve))
  for (const [, delayMs] of set.mock.calls) if (Number(delayMs) < 0) warnings.push(delayMs)
  set.mockRestore()
  expect(warnings).toEqual([])
})
