/** Laws of the calling side, in virtual time: servers, networks and callers of all sorts. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createLimiter } from '../../src/index.ts'
import { OutboundError, outbound, throttle } from '../../src/outbound.ts'
import { type HeaderFormat, LimitedServer, type ServerLimit } from '../support/limited-server.ts'
import { expectProperty } from '../support/property.ts'
import { VirtualClock } from '../support/virtual-clock.ts'
import { expectNoWindowOver } from '../support/windows.ts'

const URL = 'https://api.example/'

const serverLimit = fc.record({
  name: fc.constant('limit'),
  limit: fc.integer({ min: 1, max: 12 }),
  windowMs: fc.constantFrom(1_000, 2_000, 5_000),
  kind: fc.constantFrom('sliding' as const, 'fixed' as const),
  offsetMs: fc.integer({ min: 0, max: 5_000 }),
})

const serverLimits: fc.Arbitrary<ServerLimit[]> = fc
  .uniqueArray(serverLimit, { minLength: 1, maxLength: 3, selector: ({ windowMs }) => windowMs })
  .map((limits) => limits.map((limit, index) => ({ ...limit, name: `limit-${index}` })))

interface Trip {
  readonly startMs: number
  readonly thereMs: number
  readonly backMs: number
}

function createTrips(thereMs: fc.Arbitrary<number>, backMs: fc.Arbitrary<number>): fc.Arbitrary<Trip[]> {
  const startMs = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 10_000 }))
  return fc.array(fc.record({ startMs, thereMs, backMs }), { minLength: 1, maxLength: 40 })
}

const anyMs = fc.oneof(fc.integer({ min: 0, max: 50 }), fc.integer({ min: 0, max: 4_000 }))
const trips = createTrips(anyMs, anyMs)

interface Run {
  readonly server: LimitedServer
  readonly statuses: number[]
  readonly tookMs: number
}

/** Makes the trips from several processes, in turns. */
async function run(
  limits: readonly ServerLimit[],
  headerFormat: HeaderFormat,
  processes: number,
  trips: readonly Trip[],
): Promise<Run> {
  const clock = new VirtualClock()
  const startMs = clock.now()
  const server = new LimitedServer(limits, headerFormat)
  const clients = Array.from({ length: processes }, () => {
    const travel = async (_input: unknown, init?: RequestInit) => {
      const { thereMs, backMs } = trips[Number(new Headers(init?.headers).get('trip'))] as Trip
      await clock.sleep(thereMs)
      const { status, headers } = server.answer(clock.now())
      await clock.sleep(backMs)
      return new Response(null, { status, headers })
    }
    const options = { maxWaitMs: Number.POSITIVE_INFINITY, retry: { attempts: 100 } }
    return outbound(travel as typeof fetch, { clock, random: () => 0.5, ...options })
  })
  const calls = trips.map(async ({ startMs }, index) => {
    await clock.sleep(startMs)
    const client = clients[index % processes] as typeof fetch
    return (await client(URL, { headers: { trip: String(index) } })).status
  })
  const statuses = await clock.finish(Promise.all(calls))
  return { server, statuses, tookMs: clock.now() - startMs }
}

const formats = fc.constantFrom<HeaderFormat>('draft-11', 'draft-7', 'draft-6')

test('outbound(): every call is admitted in the end, whatever the server reports and however long calls take', () =>
  expectProperty(
    fc.asyncProperty(
      serverLimits,
      fc.oneof(formats, fc.constant('retry-after' as const)),
      fc.integer({ min: 1, max: 4 }),
      trips,
      async (limits, format, processes, trips) => {
        const { statuses, tookMs } = await run(limits, format, processes, trips)
        expect(statuses).toEqual(trips.map(() => 200))
        // As slowly as one by one, each in a window of its own, at most.
        const longestMs = Math.max(...trips.map(({ thereMs, backMs }) => thereMs + backMs))
        expect(tookMs).toBeLessThanOrEqual(10_000 + trips.length * (6_500 + longestMs))
      },
    ),
    300,
  ))

test('outbound(): once a limit is learned, the server refuses nobody but the calls that find out if its window slides', () =>
  expectProperty(
    fc.asyncProperty(
      serverLimits,
      formats,
      // The first answer comes before others go without it, and calls arrive within the margin of a window.
      createTrips(fc.integer({ min: 0, max: 10 }), fc.integer({ min: 0, max: 900 })),
      async (limits, format, trips) => {
        // Other formats show the tightest of several.
        const shown = format === 'draft-11' ? limits : limits.slice(0, 1)
        const { server } = await run(shown, format, 1, trips)
        expect(server.refused).toBeLessThanOrEqual(3 * shown.length)
      },
    ),
    300,
  ))

test('outbound(): calls go as soon as a window and the longest trip have passed', () =>
  expectProperty(
    fc.asyncProperty(serverLimit, fc.integer({ min: 1, max: 4 }), trips, async (limit, processes, trips) => {
      const { tookMs } = await run([limit], 'draft-11', processes, trips)
      const longestMs = Math.max(...trips.map(({ thereMs, backMs }) => thereMs + backMs))
      const lastStartMs = Math.max(...trips.map(({ startMs }) => startMs))
      const rounds = Math.ceil(trips.length / limit.limit)
      // The first call is alone for a second at most.
      const firstMs = longestMs + 1_000
      expect(tookMs).toBeLessThanOrEqual(lastStartMs + firstMs + rounds * (limit.windowMs * 1.011 + 2 + longestMs))
    }),
    200,
  ))

test('outbound(): a limit that is named is held, and a server that counts as exactly refuses nobody', () =>
  expectProperty(
    fc.asyncProperty(serverLimit, trips, async (limit, trips) => {
      const clock = new VirtualClock()
      const server = new LimitedServer([{ ...limit, kind: 'sliding' }], 'retry-after')
      // All trips to the server are of the same length.
      const travel = async () => {
        await clock.sleep(20)
        return new Response(null, server.answer(clock.now()))
      }
      const limits = `${limit.limit}/${limit.windowMs}ms`
      const call = outbound(travel as typeof fetch, { clock, limits, maxWaitMs: Number.POSITIVE_INFINITY })
      await clock.finish(Promise.all(trips.map(({ startMs }) => clock.sleep(startMs).then(() => call(URL)))))
      expect(server.refused).toBe(0)
    }),
    100,
  ))

test('outbound(): a server that only sends Retry-After admits every call, refuses few, and is used well', () =>
  expectProperty(
    fc.asyncProperty(
      serverLimit,
      fc.integer({ min: 0, max: 500 }),
      fc.integer({ min: 1, max: 200 }),
      async (limit, tripMs, concurrent) => {
        const clock = new VirtualClock()
        const startMs = clock.now()
        const server = new LimitedServer([limit], 'retry-after')
        const travel = async () => {
          await clock.sleep(tripMs)
          return new Response(null, server.answer(clock.now()))
        }
        const options = { maxWaitMs: Number.POSITIVE_INFINITY, retry: { attempts: 100 } }
        const call = outbound(travel as typeof fetch, { clock, random: () => 0.5, ...options })
        const statuses: number[] = []
        let made = 0
        const work = async () => {
          while (made++ < 200) statuses.push((await call(URL)).status)
        }
        await clock.finish(Promise.all(Array.from({ length: concurrent }, work)))
        expect(statuses).toEqual(Array.from({ length: 200 }, () => 200))
        // Some in the first burst, until it is known that there is a limit.
        expect(server.refused).toBeLessThanOrEqual(5 + 0.5 * limit.limit + 200 * 0.05)
        const shortestMs = Math.max((200 / limit.limit) * limit.windowMs, (200 / concurrent) * tripMs)
        expect(clock.now() - startMs).toBeLessThanOrEqual(2 * shortestMs + 10_000)
      },
    ),
    60,
  ))

const job = fc.record({
  startMs: fc.integer({ min: 0, max: 3_000 }),
  cost: fc.integer({ min: 1, max: 3 }),
  priority: fc.constantFrom('critical' as const, 'default' as const, 'sheddable' as const),
  caller: fc.constantFrom('a', 'b'),
  maxWaitMs: fc.oneof(fc.constant(Number.POSITIVE_INFINITY), fc.integer({ min: 0, max: 4_000 })),
  abortAfterMs: fc.option(fc.integer({ min: 0, max: 4_000 }), { nil: undefined, freq: 4 }),
})

test('throttle(): every call goes in its order and in time, or fails with the reason; no window is exceeded', () =>
  expectProperty(
    fc.asyncProperty(
      fc.array(job, { minLength: 1, maxLength: 60, size: 'max' }),
      fc.integer({ min: 3, max: 8 }),
      fc.integer({ min: 1, max: 20 }),
      fc.integer({ min: 0, max: 30 }),
      async (jobs, limit, maxQueued, storeMs) => {
        const clock = new VirtualClock()
        const serverLimit = { limit, windowMs: 1_000 }
        const exact = createLimiter({ limits: `${limit}/1s`, now: () => clock.now() })
        const limiter = {
          async take(identity: string, options?: { cost?: number }) {
            await clock.sleep(storeMs)
            return exact.take(identity, options)
          },
        }
        const went: { index: number; ms: number; cost: number }[] = []
        const call = throttle(
          async (index: number, _signal: AbortSignal) => {
            went.push({ index, ms: clock.now(), cost: jobs[index]?.cost ?? 0 })
          },
          {
            limiter,
            identity: 'one',
            clock,
            maxQueued,
            cost: (index) => jobs[index]?.cost ?? 0,
            priority: (index) => jobs[index]?.priority ?? 'default',
            tenant: (index) => jobs[index]?.caller ?? '',
            maxWaitMs: (index) => jobs[index]?.maxWaitMs ?? 0,
            signal: (_, signal) => signal,
          },
        )
        const outcomes = jobs.map(async ({ startMs, abortAfterMs }, index) => {
          await clock.sleep(startMs)
          const controller = new AbortController()
          if (abortAfterMs !== undefined) clock.after(abortAfterMs, () => controller.abort('aborted'))
          const beganMs = clock.now()
          const outcome = await call(index, controller.signal).then(
            () => 'went',
            (error: unknown) => (error instanceof OutboundError ? error.code : error),
          )
          return { outcome, beganMs, waitedMs: clock.now() - beganMs }
        })
        const ends = await clock.finish(Promise.all(outcomes))

        expectNoWindowOver(limit, serverLimit.windowMs, went)
        ends.forEach(({ outcome, waitedMs }, index) => {
          const { maxWaitMs, abortAfterMs = Number.POSITIVE_INFINITY } = jobs[index] as (typeof jobs)[number]
          expect(['went', 'aborted', 'WAIT_TOO_LONG', 'QUEUE_FULL']).toContain(outcome)
          // What is being asked for when its time is up may still be had.
          expect(waitedMs).toBeLessThanOrEqual(Math.min(maxWaitMs + storeMs, abortAfterMs))
        })
        const order = went.map(({ index }) => ({ index, job: jobs[index], beganMs: ends[index]?.beganMs ?? 0 }))
        order.forEach((later, at) => {
          const overtaken = order.slice(at + 1).filter(({ job, beganMs }) => {
            return job?.priority === later.job?.priority && job?.caller === later.job?.caller && beganMs < later.beganMs
          })
          expect(overtaken).toEqual([])
        })
      },
    ),
    300,
  ))
