import { Agent, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { openRequest, responseTo, type Sent } from '../../support/http-client.ts'
import { callersOf, PATHS, type Path } from './callers.ts'
import type { FaultyUpstream } from './upstream.ts'

const TICK_MS = 5

export interface TrafficOptions {
  readonly points: readonly URL[]
  readonly upstream: FaultyUpstream
  /** Requests sent a second, evenly spread over the points, whatever becomes of them. */
  readonly ratePerS: number
  /** None is sent while so many are in flight. */
  readonly mostInFlight: number
}

/** One request and what became of it. Times are by `performance.now()`. */
export interface Sample {
  readonly point: number
  readonly path: Path
  readonly caller: string
  /** It sends more than its limit; others send no more than one isolate allows by itself. */
  readonly isGreedy: boolean
  readonly startMs: number
  /** When the upstream saw it or, if it never did, when its answer began. */
  readonly decidedMs: number
  readonly endMs: number
  /** 0 if no answer came. */
  readonly status: number
  /** The field `Sluice-Degraded`. */
  readonly degraded: string | undefined
  /** Head and body of what was answered, for those who look for secrets. */
  readonly text: string
}

export interface Traffic {
  readonly samples: readonly Sample[]
  readonly peakInFlight: number
  /** Resolves when so many requests have been answered that were sent after this call. */
  answered(requests: number): Promise<void>
  /** Resolves when all have been answered that are in flight at this call. */
  drained(): Promise<void>
  /** Sends nothing more and resolves when all that was sent has been answered. */
  stop(): Promise<readonly Sample[]>
}

let requestsSent = 0

/** Callers of every policy, some within their limits and some beyond, at a steady rate. */
export function startTraffic({ points, upstream, ratePerS, mostInFlight }: TrafficOptions): Traffic {
  const agent = new Agent({ keepAlive: true })
  const callers = callersOf(crypto.randomUUID())
  const samples: Sample[] = []
  const pending = new Set<Promise<void>>()
  const beganMs = performance.now()
  let sent = 0
  let peakInFlight = 0

  async function sendOne(): Promise<void> {
    const index = sent++
    const path = PATHS[index % PATHS.length] as Path
    const point = index % points.length
    const { caller, isGreedy } = callers.next(path)
    const id = `${++requestsSent}`
    const headers = { authorization: `Bearer ${caller}`, 'x-request': id, 'accept-encoding': 'identity' }
    const startMs = performance.now()
    const exchange = await fetchText(points[point] as URL, { path: `/${path}`, headers, agent })
    const { status, fields, body, beganAt } = exchange
    const degraded = fields['sluice-degraded']
    samples.push({
      point,
      path,
      caller,
      isGreedy,
      startMs,
      decidedMs: upstream.arrivedMs(id) ?? beganAt,
      endMs: performance.now(),
      status,
      degraded: degraded === undefined ? undefined : String(degraded),
      text: `${JSON.stringify(fields)}\n${body}`,
    })
  }

  const timer = setInterval(() => {
    const due = ((performance.now() - beganMs) / 1_000) * ratePerS
    while (sent < due && pending.size < mostInFlight) {
      const exchange = sendOne().finally(() => pending.delete(exchange))
      pending.add(exchange)
    }
    peakInFlight = Math.max(peakInFlight, pending.size)
  }, TICK_MS)

  return {
    samples,
    get peakInFlight() {
      return peakInFlight
    },
    async answered(requests) {
      const fromMs = performance.now()
      while (samples.filter(({ startMs }) => startMs >= fromMs).length < requests) await wait(TICK_MS)
    },
    async drained() {
      await Promise.all(pending)
    },
    async stop() {
      clearInterval(timer)
      await Promise.all(pending)
      agent.destroy()
      return samples
    },
  }
}

interface Exchange {
  readonly status: number
  readonly fields: IncomingMessage['headers']
  readonly body: string
  readonly beganAt: number
}

/** Never rejects: a connection that broke is status 0, with the reason as its body. */
async function fetchText(gateway: URL, sent: Sent): Promise<Exchange> {
  try {
    const response = await responseTo(openRequest(gateway, sent).end())
    const beganAt = performance.now()
    return { status: response.statusCode ?? 0, fields: response.headers, body: await text(response), beganAt }
  } catch (error) {
    return { status: 0, fields: {}, body: (error as Error).message, beganAt: performance.now() }
  }
}
