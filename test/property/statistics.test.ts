import fc from 'fast-check'
import { expect, test } from 'vitest'
import { findQuantileMs } from '../../dashboard/figures.ts'
import { StoreError } from '../../src/core/model/store.ts'
import { addCounts, type Flush, type StatisticsStore } from '../../src/core/store/counters.ts'
import { MemoryCounters } from '../../src/core/store/memory/memory-tables.ts'
import { LATENCY_BOUNDS_MS, summarize } from '../../src/gateway/statistics/metrics.ts'
import { Minute } from '../../src/gateway/statistics/minute.ts'
import { Recorder } from '../../src/gateway/statistics/recorder.ts'
import { loadConfig } from '../../src/http/config/load-config.ts'
import type { Observed } from '../../src/http/response/exchange.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

const { policies } = loadConfig({ UPSTREAM_URL: 'https://api.example.com' })
const [policy] = policies
if (!policy) throw new Error('there is no policy')

const ADMITTED: Observed = {
  request: new Request('https://gateway.example/'),
  verdict: { outcome: 'admitted', limits: [] },
  trace: { matches: [{ policy, route: undefined, isCertain: true }], charges: [] },
}

/** What becomes of a call that sends a flush. */
const FATES = [
  'added',
  'failed',
  'added, but unanswered',
  'added late, unanswered',
  'added, answered late',
  'failed late',
  'never answered',
] as const
type Fate = (typeof FATES)[number]

const LATE_MS = 45_000

/** Adds each flush as its fate says, and then answers or not. */
class UnreliableCounters implements Pick<StatisticsStore, 'add'> {
  readonly #clock: VirtualClock
  readonly #counters: StatisticsStore
  readonly #fates: Fate[]

  constructor(clock: VirtualClock, counters: StatisticsStore, fates: readonly Fate[]) {
    this.#clock = clock
    this.#counters = counters
    this.#fates = [...fates]
  }

  async add(flush: Flush): Promise<void> {
    const fate = this.#fates.shift() ?? 'added'
    if (fate === 'never answered') await new Promise(() => {})
    if (fate === 'added late, unanswered') this.#clock.after(LATE_MS, () => this.#counters.add(flush))
    else if (fate.startsWith('added')) await this.#counters.add(flush)
    // By then, another request sends.
    if (fate.endsWith('late')) await this.#clock.sleep(LATE_MS)
    if (fate !== 'added' && fate !== 'added, answered late') throw new StoreError('no answer')
  }
}

const fates = fc.array(fc.constantFrom(...FATES), { maxLength: 8 })
/**
 * Milliseconds before each request, some of which come together and some after a long time, and whether the platform ends
 * the request before it could send anything.
 */
const arrivals = fc.array(
  fc.tuple(
    fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 2_000 }), fc.integer({ min: 5_000, max: 90_000 })),
    fc.integer({ min: 0, max: 4 }).map((number) => number === 0),
  ),
  { minLength: 1, maxLength: 40 },
)

test('no request is lost, and none is counted twice, whatever becomes of flushes', async () => {
  await fc.assert(
    fc.asyncProperty(fates, arrivals, async (fates, arrivals) => {
      const clock = new VirtualClock()
      const counters = new MemoryCounters(() => clock.now())
      let isEnded = false
      const recorder = new Recorder({
        counters: new UnreliableCounters(clock, counters, fates),
        readLabel: undefined,
        keepsRecent: true,
        now: () => clock.now(),
        wait: (ms) => (isEnded ? new Promise(() => {}) : clock.sleep(ms)),
        log: () => {},
      })
      let requests = 0
      const send = () => {
        requests++
        recorder.onDecided(ADMITTED, { waitUntil: () => {} })
      }
      for (const [pauseMs, isEndedEarly] of arrivals) {
        await clock.advance(pauseMs)
        isEnded = isEndedEarly
        send()
        isEnded = false
      }
      // However badly it began, a few requests later everything is told.
      for (let i = 0; i < 12; i++) {
        await clock.advance(40_000)
        send()
      }
      await clock.advance(60_000)
      const reported = summarize(await counters.readTotals())
      expect(reported.requests.admitted).toBe(requests)
      const byMinute = await counters.read('minute', 0, clock.now() + 1)
      const sum = byMinute.reduce((all, { counts }) => all + summarize(counts).requests.admitted, 0)
      expect(sum).toBe(requests)
    }),
  )
})

test('histograms of isolates sum up to that of all their times, and report bounds that hold', () => {
  const times = fc.array(fc.oneof(fc.integer({ min: 0, max: 30 }), fc.integer({ min: 0, max: 20_000 })), {
    minLength: 1,
  })
  const shares = fc.double({ min: 0.01, max: 1, noNaN: true })
  fc.assert(
    fc.property(fc.array(times, { minLength: 1, maxLength: 5 }), shares, (isolates, share) => {
      const sums = new Map<string, number>()
      for (const own of isolates) {
        const minute = new Minute(0)
        for (const ms of own) minute.addStoreAnswer(ms)
        addCounts(sums, minute.toPeriod().counts)
      }
      const all = isolates.flat()
      const { latency, calls } = summarize(sums).store
      expect(calls).toBe(all.length)
      expect(latency.sumMs).toBe(all.reduce((sum, ms) => sum + ms, 0))
      const bound = findQuantileMs(latency.counts, LATENCY_BOUNDS_MS, share) ?? 0
      expect(all.filter((ms) => ms <= bound).length).toBeGreaterThanOrEqual(share * all.length)
      const below = LATENCY_BOUNDS_MS.filter((ms) => ms < bound).at(-1) ?? -1
      expect(all.filter((ms) => ms <= below).length).toBeLessThan(share * all.length)
    }),
  )
})
