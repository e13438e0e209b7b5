import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Calendar, CalendarUnit } from '../../src/core/model/limits.ts'
import { openCalendar, readCalendarLimits } from '../../src/core/options/calendar.ts'
import { forwardUs } from '../support/arbitraries.ts'
import { createCharge, retryAfterMs, take } from '../support/charges.ts'
import { expectProperty } from '../support/property.ts'
import { TIMED_STORES } from '../support/timed-stores.ts'

const DAY_MS = 86_400_000

interface Settings {
  readonly unit: CalendarUnit
  readonly timeZone: string
  readonly starts: number
}

/** In some of them a midnight is missing, comes twice, or a day is missing. */
const ODD_ZONES = [
  ...['America/Sao_Paulo', 'Asia/Beirut', 'Africa/Cairo', 'America/Havana', 'America/St_Johns', 'Pacific/Apia'],
]
const anyTimeZone = fc.oneof(fc.constantFrom(...ODD_ZONES), fc.constantFrom(...Intl.supportedValuesOf('timeZone')))
const anyUnit = fc.constantFrom<CalendarUnit>('day', 'week', 'month', 'year')
const anyStarts = fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 31 }))
const anySettings: fc.Arbitrary<Settings> = fc.record({ unit: anyUnit, timeZone: anyTimeZone, starts: anyStarts })
const anyMoment = fc.integer({ min: Date.UTC(1972, 0), max: Date.UTC(2040, 0) })

function open({ unit, timeZone, starts }: Settings): Calendar {
  return openCalendar(unit, timeZone, starts)
}

/** What a clock on the wall shows, as if it showed UTC. */
function readWall(ms: number, timeZone: string): number {
  const seconds = new Date(ms).toLocaleString('sv', { timeZone, dateStyle: 'short', timeStyle: 'medium' })
  return Date.parse(`${seconds.replace(' ', 'T')}Z`) + (ms % 1000)
}

/** Midnight on the first day of the window that a wall shows to have begun. */
function findFirstDay(wallMs: number, { unit, starts }: Settings): number {
  const wall = new Date(wallMs)
  const [year, month, day] = [wall.getUTCFullYear(), wall.getUTCMonth(), wall.getUTCDate()]
  switch (unit) {
    case 'day':
      return Date.UTC(year, month, day)
    case 'week':
      return Date.UTC(year, month, day - ((wall.getUTCDay() + 6) % 7))
    case 'month':
      return Date.UTC(year, month, Math.min(starts, new Date(Date.UTC(year, month + 1, 0)).getUTCDate()))
    case 'year':
      return Date.UTC(year, 0)
  }
}

test('windows of a calendar follow each other without a gap, each from the first moment of its first day', async () => {
  await expectProperty(
    fc.asyncProperty(anySettings, anyMoment, async (settings, nowMs) => {
      const { timeZone } = settings
      const [startMs = 0, endMs = 0, nextMs = 0] = open(settings).findEnds(nowMs)
      expect(startMs).toBeLessThanOrEqual(nowMs)
      expect(nowMs).toBeLessThan(endMs)
      expect(endMs).toBeLessThan(nextMs)
      const calendar = open(settings)
      for (const [atMs, ends] of [
        [endMs - 1, [startMs, endMs, nextMs]],
        [endMs, [endMs, nextMs]],
        [startMs - 1, [startMs, endMs]],
      ] as const) {
        const found = calendar.findEnds(atMs)
        expect(found.slice(ends[0] === startMs && atMs < startMs ? 1 : 0).slice(0, ends.length)).toEqual(ends)
      }
      const firstDayMs = findFirstDay(readWall(endMs, timeZone), settings)
      expect(readWall(endMs - 1, timeZone)).toBeLessThan(firstDayMs)
      expect(readWall(endMs, timeZone)).toBeGreaterThanOrEqual(firstDayMs)
    }),
    400,
  )
})

const LIMIT = 5
/** Isolates' clocks differ from the store's by less than the shortest window. */
const MAX_SKEW_MS = { day: 22 * 3_600_000, week: 6 * DAY_MS, month: 27 * DAY_MS, year: 364 * DAY_MS } as const

const anyStep = fc.record({
  cost: fc.integer({ min: 1, max: 3 }),
  /** Share of the longest skew. */
  skew: fc.double({ min: -1, max: 1, noNaN: true }),
  /** The store's clock goes to a moment around the end of the window, or by a share of the longest skew. */
  gap: fc.oneof(fc.constantFrom('before', 'at', 'after'), fc.double({ min: 0, max: 1.5, noNaN: true })),
  /** Or back. */
  isBack: fc.integer({ min: 0, max: 5 }).map((die) => die === 0),
  isChanged: fc.integer({ min: 0, max: 9 }).map((die) => die === 0),
})

describe.each(TIMED_STORES)('%s', (_name, { open: openStore, gapUs, expectProperty }) => {
  const canStepBack = gapUs !== forwardUs

  test('a window of the calendar opens once, at its time, and ends as it began, whatever clocks and settings do', async () => {
    const changed = fc.record({ timeZone: anyTimeZone, starts: anyStarts })
    await expectProperty(
      fc.asyncProperty(
        anySettings,
        changed,
        anyMoment,
        fc.array(anyStep, { maxLength: 40, size: 'max' }),
        async (settings, change, startMs, steps) => {
          const store = openStore()
          const [before, after] = [open(settings), open({ ...settings, ...change })]
          const [{ windowMs = 0 } = {}] =
            readCalendarLimits({ algorithm: 'quota', limits: `1/${settings.unit}` }, () => expect.unreachable()) ?? []
          const key = createCharge('quota', []).key
          let [nowMs, latestMs, endMs, used, isChanged] = [startMs, 0, 0, 0, false]
          /** Units by the end of the window that the calendar has at the latest admission so far. */
          const admitted = new Map<number, number>()
          for (const step of steps) {
            const maxMs = MAX_SKEW_MS[settings.unit]
            if (typeof step.gap === 'number')
              nowMs += Math.floor(step.gap * maxMs) * (step.isBack && canStepBack ? -1 : 1)
            else if (endMs > nowMs) nowMs = endMs + { before: -1, at: 0, after: 1 }[step.gap]
            isChanged ||= step.isChanged
            const calendar = isChanged ? after : before
            const callerMs = nowMs + Math.floor(step.skew * maxMs)
            const skewed = { ...calendar, findEnds: () => calendar.findEnds(callerMs) }
            const limits = [{ limit: LIMIT, windowMs, calendar: skewed }]
            const request = take([createCharge('quota', limits, { key, cost: step.cost })])
            const isRunning = endMs > nowMs
            const expected = isRunning ? { used, endMs } : { used: 0, endMs: calendar.findEnds(nowMs)[1] as number }
            const fits = expected.used + step.cost <= LIMIT
            const decision = await store.decide(request, nowMs * 1000)
            const { remaining, resetMs } = decision.usage[0]?.[0] ?? {}
            const usedNow = expected.used + (fits ? step.cost : 0)
            expect({
              granted: decision.granted,
              used: LIMIT - (remaining ?? 0),
              endMs: nowMs + (resetMs ?? 0),
            }).toEqual({
              granted: Number(fits),
              used: usedNow,
              endMs: expected.endMs,
            })
            if (fits) {
              ;[used, endMs] = [usedNow, expected.endMs]
              latestMs = Math.max(latestMs, nowMs)
              const [, ownEndMs = 0] = before.findEnds(latestMs)
              admitted.set(ownEndMs, (admitted.get(ownEndMs) ?? 0) + step.cost)
            } else {
              const waitMs = retryAfterMs(decision)
              expect((await store.peek(request, (nowMs + waitMs) * 1000)).granted).toBe(1)
              expect((await store.peek(request, (nowMs + waitMs - 1) * 1000)).granted).toBe(0)
            }
          }
          // With other settings, the windows before and after the change are of different calendars.
          if (!isChanged) for (const units of admitted.values()) expect(units).toBeLessThanOrEqual(LIMIT)
        },
      ),
      600,
    )
  })

  test.each([-1_000, -60, 60, 1_000])(
    'no window is shorter for an isolate whose clock is %i days off',
    async (days) => {
      const calendar = openCalendar('month', 'Europe/Berlin')
      const nowMs = Date.UTC(2026, 10, 23)
      const callerMs = nowMs + days * DAY_MS
      const windowMs = 31 * DAY_MS + 3_600_000
      const skewed = { ...calendar, findEnds: () => calendar.findEnds(callerMs) }
      const charge = createCharge('quota', [{ limit: LIMIT, windowMs, calendar: skewed }])
      const { usage } = await openStore().decide(take([charge]), nowMs * 1000)
      const [callerStartMs = 0] = calendar.findEnds(callerMs)
      expect(usage[0]?.[0]?.resetMs).toBe(days < 0 ? windowMs : callerStartMs - nowMs)
    },
  )
})
