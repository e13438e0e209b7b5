import { describe, expect, test } from 'vitest'
import type { Priority } from '../../../src/core/model/policy.ts'
import { seededRandom } from '../../../tools/seeded-random.ts'
import { createHealth, SimulatedUpstream, Timeline } from './upstream-model.ts'

const SECOND = 1_000
const WELL_UNTIL_MS = 30 * SECOND
const DEGRADED_UNTIL_MS = 330 * SECOND
const END_MS = 700 * SECOND
const REQUESTS_PER_SECOND = 200
/** 24 workers of 100 ms serve 240 a second: 200 is what they bear well. */
const WORKERS = 24
const SERVICE_MS = 100
/** Each asks for all classes. */
const CALLERS = 31

/** One in five requests is critical, two are sheddable. */
const MIX: readonly Priority[] = ['critical', 'default', 'sheddable', 'default', 'sheddable']

interface Outcome {
  readonly atMs: number
  readonly priority: Priority
  readonly status: 200 | 503 | 'shed'
}

/** The same traffic all along, while the upstream loses half of its workers for five minutes. */
function simulate(isShedding: boolean, { seed = 1, endMs = END_MS } = {}) {
  const timeline = new Timeline()
  const upstream = new SimulatedUpstream(timeline, {
    workersAt: (ms) => (ms >= WELL_UNTIL_MS && ms < DEGRADED_UNTIL_MS ? WORKERS / 2 : WORKERS),
    serviceMs: SERVICE_MS,
    queueLimit: 100,
  })
  const health = timeline.watchHealth()
  const outcomes: Outcome[] = []
  const levels: { atMs: number; level: number }[] = []
  const random = seededRandom(seed)
  let count = 0
  const arrive = () => {
    const atMs = timeline.nowMs
    const priority = MIX[count % MIX.length] as Priority
    const caller = `caller ${count++ % CALLERS}`
    if (isShedding && health.sheds(priority)) outcomes.push({ atMs, priority, status: 'shed' })
    else {
      const end = health.begin(caller)
      upstream.request((status) => {
        outcomes.push({ atMs, priority, status })
        end(status === 503)
      })
    }
    levels.push({ atMs, level: health.level })
    // Exponential gaps: independent callers.
    const next = atMs + (-Math.log(1 - random()) * SECOND) / REQUESTS_PER_SECOND
    if (next < endMs) timeline.at(next, arrive)
  }
  timeline.at(0, arrive)
  timeline.runUntil(endMs + 10 * SECOND)
  return { outcomes, levels }
}

function successShare(outcomes: readonly Outcome[], priority: Priority, fromMs: number, toMs: number): number {
  const own = outcomes.filter((o) => o.priority === priority && o.atMs >= fromMs && o.atMs < toMs)
  return own.filter(({ status }) => status === 200).length / own.length
}

const shedding = simulate(true)
const levelsBetween = (levels: typeof shedding.levels, fromMs: number, toMs: number) =>
  levels.filter(({ atMs }) => atMs >= fromMs && atMs < toMs).map(({ level }) => level)

test('UpstreamHealth: at half of the capacity critical requests keep 99% success, from the first second', () => {
  expect(successShare(shedding.outcomes, 'critical', WELL_UNTIL_MS, DEGRADED_UNTIL_MS)).toBeGreaterThanOrEqual(0.99)
})

test('UpstreamHealth: without shedding they would not', () => {
  const { outcomes } = simulate(false, { endMs: DEGRADED_UNTIL_MS })
  expect(successShare(outcomes, 'critical', WELL_UNTIL_MS, DEGRADED_UNTIL_MS)).toBeLessThan(0.7)
})

test('UpstreamHealth: nothing is shed while the upstream is well', () => {
  expect(shedding.outcomes.filter(({ atMs, status }) => atMs < WELL_UNTIL_MS && status === 'shed')).toEqual([])
})

test('UpstreamHealth: classes go one after the other, the critical never', () => {
  for (const { priority, status } of shedding.outcomes) {
    if (priority === 'critical') expect(status).not.toBe('shed')
  }
  const settled = DEGRADED_UNTIL_MS - 60 * SECOND
  expect(successShare(shedding.outcomes, 'sheddable', settled, DEGRADED_UNTIL_MS)).toBeLessThan(0.1)
  expect(successShare(shedding.outcomes, 'default', settled, DEGRADED_UNTIL_MS)).toBeGreaterThan(0.3)
})

test.each([1, 2, 3, 4, 5])('UpstreamHealth: the level settles and does not oscillate (traffic %d)', (seed) => {
  const { levels } = simulate(true, { seed, endMs: DEGRADED_UNTIL_MS })
  const settled = levelsBetween(levels, WELL_UNTIL_MS + 60 * SECOND, DEGRADED_UNTIL_MS)
  // Less than half of a class is tried again, and that only now and then.
  expect(Math.max(...settled) - Math.min(...settled)).toBeLessThan(0.5)
  // A swing is a rise after a fall.
  let swings = 0
  let isFalling = false
  settled.forEach((level, index) => {
    const before = settled[index - 1] ?? level
    if (level > before && isFalling) swings++
    if (level !== before) isFalling = level < before
  })
  expect(swings).toBeLessThanOrEqual(5)
})

test('UpstreamHealth: it falls back gradually when the upstream is well again', () => {
  const after = levelsBetween(shedding.levels, DEGRADED_UNTIL_MS, END_MS)
  expect(after.at(-1)).toBe(0)
  const steepest = Math.max(...after.map((level, index) => (after[index - 1] ?? level) - level))
  expect(steepest).toBeLessThanOrEqual(0.011)
  expect(successShare(shedding.outcomes, 'critical', DEGRADED_UNTIL_MS, END_MS)).toBeGreaterThanOrEqual(0.99)
})

test('UpstreamHealth: traffic of one class comes back when the upstream is well, though all of it was shed', () => {
  let nowMs = 0
  const health = createHealth(() => nowMs)
  const shedIn = (seconds: number, isOverload: boolean) => {
    let shed = 0
    for (const endMs = nowMs + seconds * SECOND; nowMs < endMs; nowMs += 10) {
      if (health.sheds('default')) shed++
      else health.begin(`caller ${(nowMs / 10) % CALLERS}`)(isOverload)
    }
    return shed
  }
  expect(shedIn(5, false)).toBe(0)
  shedIn(10, true)
  // Not quite: what little is still let through is now and then one caller's alone.
  expect(health.level).toBeGreaterThan(1.9)
  shedIn(300, false)
  expect(shedIn(5, false)).toBe(0)
})

/** Requests of 50 networks at random, of no priority. @returns those that are shed, and the level, in each second */
function simulateDemand(
  perSecondAt: (ms: number) => number,
  request: (timeline: Timeline, respond: (isOverload: boolean) => void) => void,
  endMs: number,
) {
  const timeline = new Timeline()
  const health = timeline.watchHealth()
  const random = seededRandom(1)
  const seconds = Array.from({ length: endMs / SECOND }, () => ({ shed: 0, level: 0 }))
  let count = 0
  const arrive = () => {
    const second = seconds[Math.floor(timeline.nowMs / SECOND)]
    if (!second) return
    if (health.sheds('default')) second.shed++
    else request(timeline, health.begin(`10.0.0.${count++ % 50}`))
    second.level = health.level
    timeline.at(timeline.nowMs - (Math.log(1 - random()) * SECOND) / perSecondAt(timeline.nowMs), arrive)
  }
  timeline.at(0, arrive)
  timeline.runUntil(endMs)
  return seconds
}

test.each([
  [0.5, 100, 100],
  [10, 60, 200],
  [20, 160, 100],
  [100, 700, 100],
  [200, 1_200, 40],
  [2, 20, 500],
  [1, 12, 1_000],
])(
  'UpstreamHealth: more requests, from %d to %d a second of %d ms each, are no overload',
  (before, after, latencyMs) => {
    const seconds = simulateDemand(
      (ms) => (ms < 30 * SECOND ? before : after),
      (timeline, respond) => timeline.at(timeline.nowMs + latencyMs, () => respond(false)),
      200 * SECOND,
    )
    expect(Math.max(...seconds.map(({ level }) => level))).toBeLessThan(1)
    expect(seconds.slice(60).every(({ level }) => level === 0)).toBe(true)
  },
)

test('UpstreamHealth: an upstream that answers nothing any more is overloaded, long before its requests time out', () => {
  const seconds = simulateDemand(
    () => 100,
    (timeline, respond) => {
      if (timeline.nowMs < 10 * SECOND) timeline.at(timeline.nowMs + 100, () => respond(false))
    },
    20 * SECOND,
  )
  expect(seconds[9]?.level).toBe(0)
  expect(seconds[14]?.level).toBeGreaterThan(1)
})

test.each([10, 300])(
  'UpstreamHealth: when twice too many requests came for %d s, shedding ends soon after they end',
  (lengthS) => {
    const endMs = (20 + lengthS) * SECOND
    let upstream: SimulatedUpstream | undefined
    const seconds = simulateDemand(
      (ms) => (ms < 20 * SECOND || ms >= endMs ? 100 : 400),
      (timeline, respond) => {
        upstream ??= new SimulatedUpstream(timeline, { workersAt: () => 20, serviceMs: SERVICE_MS, queueLimit: 50 })
        upstream.request((status) => respond(status === 503))
      },
      endMs + 60 * SECOND,
    )
    const after = seconds.slice(20 + lengthS)
    expect(Math.max(...seconds.map(({ level }) => level))).toBeGreaterThan(0.4)
    expect(after.findLastIndex(({ shed }) => shed > 0)).toBeLessThan(15)
    expect(after.findLastIndex(({ level }) => level > 0)).toBeLessThan(30)
  },
)

test.each([20, 1, 0.2])(
  'UpstreamHealth: it recovers in time, whether few requests come or many: %d a second',
  (rate) => {
    const endMs = 15 * SECOND
    const seconds = simulateDemand(
      (ms) => (ms < endMs ? 100 : rate),
      (timeline, respond) => respond(timeline.nowMs > 5 * SECOND && timeline.nowMs < endMs),
      endMs + 60 * SECOND,
    )
    expect(seconds[14]?.level).toBeGreaterThan(1.9)
    expect(seconds.slice(15).findLastIndex(({ shed }) => shed > 0)).toBeLessThan(20)
    expect(seconds.slice(15 + 30).every(({ level }) => level === 0)).toBe(true)
  },
)

test('UpstreamHealth: a clock that steps back freezes nothing', () => {
  let nowMs = 3_600 * SECOND
  const health = createHealth(() => nowMs)
  for (let at = 0; at < 2_000; at++, nowMs += 10)
    if (!health.sheds('default')) health.begin(`c${at % CALLERS}`)(at > 500)
  expect(health.level).toBeGreaterThan(1.9)
  nowMs -= 3_600 * SECOND
  for (let at = 0; at < 20_000; at++, nowMs += 10) if (!health.sheds('default')) health.begin(`c${at % CALLERS}`)(false)
  expect(health.level).toBe(0)
})

interface Attack {
  readonly name: string
  readonly everyMs: number
  readonly latencyMs: number
  readonly isOverload: boolean
}

const ATTACKS: readonly Attack[] = [
  { name: 'are answered 503', everyMs: 200, latencyMs: 20, isOverload: true },
  { name: 'run into 504', everyMs: 200, latencyMs: 30 * SECOND, isOverload: true },
  { name: 'run into 504 every 3 s', everyMs: 3 * SECOND, latencyMs: 30 * SECOND, isOverload: true },
  { name: 'take 1.5 s', everyMs: 200, latencyMs: 1_500, isOverload: false },
  { name: 'take 1.5 s, 20 a second', everyMs: 50, latencyMs: 1_500, isOverload: false },
]

interface Population {
  readonly honest: number
  readonly attackers: number
  /** Requests of all the honest ones. */
  readonly perSecond: number
  /** Number of an attacker → its address. */
  readonly findAddress?: (attacker: number) => string
}

const POPULATIONS: readonly Population[] = [
  { honest: 40, attackers: 2, perSecond: 40 },
  { honest: 200, attackers: 2, perSecond: 100 },
  { honest: 980, attackers: 20, perSecond: 20 },
  { honest: 980, attackers: 20, perSecond: 200 },
]

const OVERLOADED_FROM_MS = 10 * SECOND
const ATTACKED_FROM_MS = 20 * SECOND

/**
 * An upstream that is well for all but a few networks, whose requests fail or take long.
 * @param overloadedUntilMs until then, half of the others' requests fail too
 */
function simulateAttack(
  { honest, attackers, perSecond, findAddress = (attacker) => `attacker ${attacker}` }: Population,
  { everyMs, latencyMs, isOverload }: Attack,
  { overloadedUntilMs = 0, endMs = 60 * SECOND } = {},
) {
  const timeline = new Timeline()
  const health = timeline.watchHealth()
  const random = seededRandom(1)
  const levels: { atMs: number; level: number }[] = []
  let [requested, shed] = [0, 0]
  /** @returns whether it is shed */
  const send = (caller: string, priority: Priority, answeredMs: number, isFailing: boolean): boolean => {
    if (health.sheds(priority)) return true
    const end = health.begin(caller)
    timeline.at(timeline.nowMs + answeredMs, () => end(isFailing))
    return false
  }
  const arrive = () => {
    const { nowMs } = timeline
    const isFailing = nowMs >= OVERLOADED_FROM_MS && nowMs < overloadedUntilMs && random() < 0.5
    const priority = MIX[Math.floor(random() * MIX.length)] as Priority
    if (send(`honest ${Math.floor(random() * honest)}`, priority, 20 + 100 * random(), isFailing)) shed++
    requested++
    levels.push({ atMs: nowMs, level: health.level })
    timeline.at(nowMs - (Math.log(1 - random()) * SECOND) / perSecond, arrive)
  }
  timeline.at(0, arrive)
  for (let attacker = 0; attacker < attackers; attacker++) {
    const attack = () => {
      // That class is never shed.
      send(findAddress(attacker), 'critical', latencyMs, isOverload)
      timeline.at(timeline.nowMs + everyMs, attack)
    }
    timeline.at(ATTACKED_FROM_MS + ((attacker * 37) % everyMs), attack)
  }
  timeline.runUntil(endMs)
  return { shedShare: shed / requested, levels }
}

describe.each(POPULATIONS)('$attackers networks alongside $honest with $perSecond requests a second', (population) => {
  test.each(ATTACKS)('UpstreamHealth: whose requests $name get at most a hundredth of the others shed', (attack) => {
    expect(simulateAttack(population, attack).shedShare).toBeLessThanOrEqual(0.01)
  })
})

test.each(ATTACKS.slice(0, 4))(
  'UpstreamHealth: many /64 of two IPv6 sites whose requests $name are two networks',
  (attack) => {
    const findAddress = (attacker: number) => `2001:db8:${attacker % 2}:${attacker.toString(16)}::/64`
    const population = { honest: 200, attackers: 50, perSecond: 100, findAddress }
    expect(simulateAttack(population, attack).shedShare).toBeLessThanOrEqual(0.01)
  },
)

/** Of whom most requests come from the honest ones. */
const MOSTLY_HONEST = POPULATIONS.filter(({ attackers, perSecond }) => perSecond > 5 * attackers)

describe.each(MOSTLY_HONEST)(
  '$attackers networks alongside $honest with $perSecond requests a second',
  (population) => {
    test.each(ATTACKS)('UpstreamHealth: whose requests $name hide no overload, and do not prolong it', (attack) => {
      const overloadedUntilMs = 40 * SECOND
      const { levels } = simulateAttack(population, attack, { overloadedUntilMs, endMs: 80 * SECOND })
      const highest = (fromMs: number, toMs: number) => Math.max(...levelsBetween(levels, fromMs, toMs))
      expect(highest(OVERLOADED_FROM_MS, ATTACKED_FROM_MS)).toBeGreaterThan(1)
      expect(highest(overloadedUntilMs - SECOND, overloadedUntilMs)).toBeGreaterThan(1)
      // As fast as without them: no default request is shed after 25 s, and none at all after 30.
      expect(highest(overloadedUntilMs + 25 * SECOND, 80 * SECOND)).toBeLessThan(1)
      expect(highest(overloadedUntilMs + 30 * SECOND, 80 * SECOND)).toBe(0)
    })
  },
)
