import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { PendingReleases } from '../../src/core/engine/stages/pending-releases.ts'
import { type Release, StoreError } from '../../src/core/model/store.ts'
import { createCharge } from '../support/charges.ts'

beforeEach(() => vi.useFakeTimers({ now: 1_700_000_000_000 }))
afterEach(() => vi.useRealTimers())

let slots = 0

function someReleases(count: number): Release[] {
  const charge = createCharge('concurrency', [{ limit: 100, windowMs: 3_600_000 }])
  return Array.from({ length: count }, () => ({ charge: { ...charge, slot: ++slots }, isKnown: false }))
}

function subject() {
  const server = {
    state: 'served' as 'served' | 'unavailable' | 'hanging',
    calls: 0,
    released: [] as (number | undefined)[],
  }
  const revoke = (releases: readonly Release[]): Promise<void> => {
    server.calls++
    if (server.state === 'unavailable') return Promise.reject(new StoreError('no answer'))
    if (server.state === 'hanging') return new Promise(() => {})
    server.released.push(...releases.map(({ charge }) => charge.slot))
    return Promise.resolve()
  }
  return { server, pending: new PendingReleases({ revoke }, Date.now) }
}

const findSlots = (releases: readonly Release[]) => releases.map(({ charge }) => charge.slot)

test('slots are given back at once, many in one call', async () => {
  const { server, pending } = subject()
  const releases = someReleases(450)
  pending.add(releases)
  await pending.keep()
  expect([server.calls, pending.size]).toEqual([3, 0])
  expect(server.released).toEqual(findSlots(releases))
})

test('slots that could not be given back are tried again every half second, until the store is back', async () => {
  const { server, pending } = subject()
  server.state = 'unavailable'
  const releases = someReleases(2)
  pending.add(releases)
  const kept = pending.keep()
  await vi.advanceTimersByTimeAsync(10_000)
  expect(server.calls).toBe(21)
  server.state = 'served'
  await vi.advanceTimersByTimeAsync(500)
  await kept
  expect(server.released).toEqual(findSlots(releases))
})

test('a call that hangs does not keep slots from being given back by another', async () => {
  const { server, pending } = subject()
  server.state = 'hanging'
  pending.add(someReleases(1))
  const kept = pending.keep()
  await vi.advanceTimersByTimeAsync(3_500)
  server.state = 'served'
  await vi.advanceTimersByTimeAsync(500)
  await kept
  expect([server.calls, pending.size]).toEqual([5, 0])
})

test('one request goes on giving slots back for half a minute at most, and a later one goes on from there', async () => {
  const { server, pending } = subject()
  server.state = 'unavailable'
  pending.add(someReleases(1))
  const first = pending.keep().catch((error: unknown) => error)
  await pending.keep()
  await vi.advanceTimersByTimeAsync(30_000)
  expect(await first).toBeInstanceOf(StoreError)
  const before = server.calls
  await vi.advanceTimersByTimeAsync(30_000)
  expect(server.calls).toBe(before)

  server.state = 'served'
  await pending.keep()
  expect([server.calls, pending.size]).toEqual([before + 1, 0])
})

test('a later request goes on giving slots back before the time of the first is over, or if the clock stepped back', async () => {
  const { server, pending } = subject()
  server.state = 'unavailable'
  pending.add(someReleases(1))
  const keeps = [pending.keep()]
  await vi.advanceTimersByTimeAsync(13_000)
  const before = server.calls
  keeps.push(pending.keep())
  expect(server.calls).toBe(before + 1)
  vi.setSystemTime(1_600_000_000_000)
  keeps.push(pending.keep())
  expect(server.calls).toBe(before + 2)
  server.state = 'served'
  await vi.advanceTimersByTimeAsync(1_000)
  await Promise.all(keeps)
  expect(pending.size).toBe(0)
})

test('slots that have expired are not given back, nor are the oldest of more than 10,000', async () => {
  const { server, pending } = subject()
  server.state = 'unavailable'
  const releases = someReleases(10_001)
  pending.add(releases)
  expect(pending.size).toBe(10_000)
  vi.setSystemTime(Date.now() + 3_600_000)
  await pending.keep()
  expect([server.calls, pending.size]).toEqual([0, 0])
})

test('a call that succeeds after the time that a request has is no failure', async () => {
  const startMs = Date.now()
  const revoke = async () => {
    if (Date.now() < startMs + 24_400) throw new StoreError('no answer')
    await new Promise((resolve) => setTimeout(resolve, 700))
  }
  const pending = new PendingReleases({ revoke }, Date.now)
  pending.add(someReleases(1))
  const kept = pending.keep()
  await vi.advanceTimersByTimeAsync(26_000)
  await expect(kept).resolves.toBeUndefined()
})
