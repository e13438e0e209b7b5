import { expect, test } from 'vitest'
import { LeaseClock } from '../../src/core/engine/leases/lease-clock.ts'

function subject() {
  const reading = { nowMs: 1_000, steadyMs: 500 }
  const clock = new LeaseClock({ now: () => reading.nowMs, readSteadyMs: () => reading.steadyMs })
  /** @returns what is read then, and how often leases have ended so far */
  const read = (nowMs: number, steadyMs: number) => {
    Object.assign(reading, { nowMs, steadyMs })
    return [clock.read(), clock.generation]
  }
  return { clock, read }
}

test('LeaseClock ends leases when the clock reads less than before', () => {
  const { clock, read } = subject()
  expect([read(1_000, 500), read(1_000, 500), read(999, 500), read(999, 500)]).toEqual([
    [1_000, 0],
    [1_000, 0],
    [999, 1],
    [999, 1],
  ])
  clock.endLeases()
  expect(clock.generation).toBe(2)
})

test('LeaseClock ends leases when the clock falls behind the steady one by more than is rounded', () => {
  const { read } = subject()
  expect([read(1_000, 500), read(1_009, 510), read(1_018, 520), read(1_028, 530), read(1_037, 540)]).toEqual([
    [1_000, 0],
    [1_009, 0],
    [1_018, 1],
    [1_028, 1],
    [1_037, 1],
  ])
})

test('LeaseClock takes the latest reading where a late timer shows less on both clocks, up to 20 ms', () => {
  const { read } = subject()
  expect([read(1_000, 500), read(980, 480), read(1_000, 500), read(979, 479)]).toEqual([
    [1_000, 0],
    [1_000, 0],
    [1_000, 0],
    [979, 1],
  ])
  // It is then the latest: what is 20 ms less is late.
  expect([read(959, 459), read(980, 480)]).toEqual([
    [979, 1],
    [980, 1],
  ])
})

test('LeaseClock needs no steady clock', () => {
  let nowMs = 5
  const clock = new LeaseClock({ now: () => nowMs })
  expect([clock.read(), clock.generation]).toEqual([5, 0])
  nowMs = 4
  expect([clock.read(), clock.generation]).toEqual([4, 1])
})
