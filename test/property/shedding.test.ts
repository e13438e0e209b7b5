/** Few networks, whatever becomes of their requests and however little others send, have nobody's requests shed. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { hashText } from '../../src/core/runtime/hash.ts'
import { UpstreamHealth } from '../../src/core/shedding/upstream-health.ts'
import { seededRandom } from '../../tools/seeded-random.ts'
import { expectProperty } from '../support/property.ts'
import { Timeline } from '../system/simulation/upstream-model.ts'

const SECOND = 1_000
const CELLS = 64
const seeds = fc.maxSafeNat()

const attacks = fc.record({
  attackers: fc.integer({ min: 1, max: 20 }),
  everyMs: fc.constantFrom(50, 200, 500, 3_000),
  latencyMs: fc.constantFrom(0, 20, 1_500, 30 * SECOND),
  isOverload: fc.boolean(),
  beginsMs: fc.integer({ min: 0, max: 20 * SECOND }),
})

interface Traffic {
  readonly perSecond: number
  readonly networks: number
}

/** @returns the share of the others' requests that is shed within a minute */
function findShedShare(
  traffic: Traffic,
  attack: typeof attacks extends fc.Arbitrary<infer T> ? T : never,
  seed: number,
) {
  const timeline = new Timeline()
  const health = new UpstreamHealth(
    () => timeline.nowMs,
    () => seed,
  )
  const random = seededRandom(1)
  let [received, shed] = [0, 0]
  const send = (caller: string, latencyMs: number, isOverload: boolean) => {
    const end = health.begin(caller)
    timeline.at(timeline.nowMs + latencyMs, () => end(isOverload))
  }
  const arrive = () => {
    received++
    if (health.sheds('sheddable')) shed++
    else send(`honest ${Math.floor(random() * traffic.networks)}`, 20 + 100 * random(), false)
    timeline.at(timeline.nowMs - (Math.log(1 - random()) * SECOND) / traffic.perSecond, arrive)
  }
  timeline.at(0, arrive)
  for (let attacker = 0; attacker < attack.attackers; attacker++) {
    const strike = () => {
      health.sheds('critical')
      send(`attacker ${attacker}`, attack.latencyMs, attack.isOverload)
      timeline.at(timeline.nowMs + attack.everyMs, strike)
    }
    timeline.at(attack.beginsMs + ((attacker * 37) % attack.everyMs), strike)
  }
  timeline.runUntil(60 * SECOND)
  return shed / received
}

test('UpstreamHealth: twenty networks have nothing shed at any rate of the others', () => {
  const traffic = fc.record({
    perSecond: fc.constantFrom(0.02, 0.1, 0.5, 1, 2, 5, 20),
    networks: fc.constantFrom(1, 30, 1_000),
  })
  return expectProperty(
    fc.asyncProperty(traffic, attacks, seeds, async (traffic, attack, seed) => {
      expect(findShedShare(traffic, attack, seed)).toBeLessThanOrEqual(0.01)
    }),
    1_000,
  )
})

/** Networks of which no two are in one cell by this seed. */
function chooseNetworks(count: number, seed: number): string[] {
  const chosen = new Map<number, string>()
  for (let index = 0; chosen.size < count; index++) {
    const network = `2001:db8:${index.toString(16)}`
    const cell = hashText(network, seed) % CELLS
    if (!chosen.has(cell)) chosen.set(cell, network)
  }
  return [...chosen.values()]
}

test('hashText() puts networks that are chosen by one seed, or differ little, into cells at random by another', () => {
  const near = (count: number) => Array.from({ length: count }, (_, index) => `2001:db8:${index.toString(16)}`)
  const countCells = (networks: readonly string[], seed: number) =>
    new Set(networks.map((network) => hashText(network, seed) % CELLS)).size
  return expectProperty(
    fc.asyncProperty(seeds, fc.infiniteStream(seeds), async (chosenBy, others) => {
      for (const networks of [chooseNetworks(33, chosenBy), near(33)]) {
        let [sum, count] = [0, 0]
        for (const seed of others.take(100)) [sum, count] = [sum + countCells(networks, seed), count + 1]
        // 64 · (1 - (63/64)^33) = 25.9 of 64 cells, with a deviation of 0.2 over a hundred seeds.
        expect(Math.abs(sum / count - 25.9)).toBeLessThan(1.5)
      }
    }),
    100,
  )
})

test('UpstreamHealth: its seed is drawn once, with the first request', () => {
  let drawn = 0
  const health = new UpstreamHealth(
    () => 0,
    () => ++drawn,
  )
  health.sheds('default')
  expect(drawn).toBe(0)
  health.begin('a')(false)
  health.begin('b')(false)
  expect(drawn).toBe(1)
})
