import { expect, test } from 'vitest'
import { GuardedPlaces, type GuardOptions } from '../../src/core/engine/places/guarded-place.ts'
import { StoreError } from '../../src/core/model/store.ts'
import { createCharge, storeWith, take } from '../support/charges.ts'

const REQUEST = take([createCharge('sliding-window', [{ limit: 1, windowMs: 60_000 }])])

/** Two places, of which one fails. */
function subject(error: Error = new StoreError('down'), options: Partial<GuardOptions> = {}) {
  const clock = { now: 1_000_000 }
  const places = new GuardedPlaces({
    ...{ timeoutMs: 100, now: () => clock.now, log: () => {} },
    ...options,
  })
  let pings = 0
  const failing = storeWith({ decide: async () => Promise.reject(error), ping: async () => void pings++ })
  const well = storeWith({ decide: async () => ({ granted: 1, nowMs: 1, usage: [] }) })
  const [a, b] = [places.add('a', failing), places.add('b', well)]
  const fail = async () => {
    for (let i = 0; i < 20; i++) await expect(a.store.decide(REQUEST)).rejects.toThrow()
  }
  return { places, a, b, fail, countPings: () => pings }
}

test('GuardedPlaces tells the worst circuit, and calls where all may be called', async () => {
  const { places, a, b, fail, countPings } = subject()
  const states = () => [places.circuit, places.mayCall, a.circuit, a.mayCall, b.circuit, b.mayCall]
  expect(states()).toEqual(['closed', true, 'closed', true, 'closed', true])
  await fail()
  expect(states()).toEqual(['open', false, 'open', false, 'closed', true])
  await a.ping()
  expect([countPings(), ...states()]).toEqual([1, 'half-open', true, 'half-open', true, 'closed', true])
  expect(await b.store.decide(REQUEST)).toMatchObject({ granted: 1 })
  expect([...places.byName]).toEqual([
    ['a', a],
    ['b', b],
  ])
  expect(new GuardedPlaces({ timeoutMs: 100 }).circuit).toBe('closed')
})

test('GuardedPlaces without breakers are called however often they fail', async () => {
  const { places, a, fail } = subject(new StoreError('down'), { hasBreaker: false })
  await fail()
  expect([places.circuit, places.mayCall, a.circuit, a.mayCall]).toEqual(['closed', true, 'closed', true])
  await a.ping()
})

test('GuardedPlaces name the place that has failed, and keep whether the call may have run', async () => {
  for (const mayHaveRun of [true, false]) {
    const { a } = subject(new StoreError('down', { mayHaveRun }))
    await expect(a.store.decide(REQUEST)).rejects.toMatchObject({ message: 'a: down', mayHaveRun, name: 'StoreError' })
  }
  const error = new TypeError('a bug')
  await expect(subject(error).a.store.decide(REQUEST)).rejects.toBe(error)
  const { places } = subject()
  const down = new StoreError('down')
  const unnamed = places.add('', storeWith({ decide: async () => Promise.reject(down) }))
  await expect(unnamed.store.decide(REQUEST)).rejects.toBe(down)
})
