import type { Agent, IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { openRequest, responseTo, type Sent } from '../../support/http-client.ts'
import { type Rate, type SteadyTraffic, sendSteadily } from '../kit/traffic.ts'
import { createCallers, PATHS, type Path } from './callers.ts'
import type { Site } from './site.ts'

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

let requestsSent = 0

/** Callers of every policy, some within their limits and some beyond, at a steady rate, evenly spread over the points. */
export function startTraffic(
  { points, upstream }: Pick<Site, 'points' | 'upstream'>,
  rate: Rate,
): SteadyTraffic<Sample> {
  const callers = createCallers(crypto.randomUUID())
  return sendSteadily(rate, async (index, agent) => {
    const path = PATHS[index % PATHS.length] as Path
    const point = index % points.length
    const { caller, isGreedy } = callers.next(path)
    const id = `${++requestsSent}`
    const headers = { authorization: `Bearer ${caller}`, 'x-request': id, 'accept-encoding': 'identity' }
    const startMs = performance.now()
    const exchange = await fetchText(points[point]?.url as URL, { path: `/${path}`, headers, agent })
    const { status, fields, body, beganMs } = exchange
    const decidedMs = upstream.arrivedMs(id) ?? beganMs
    const degraded = fields['sluice-degraded']?.toString()
    return {
      ...{ point, path, caller, isGreedy, startMs, decidedMs, endMs: performance.now(), status, degraded },
      text: `${JSON.stringify(fields)}\n${body}`,
    }
  })
}

/** Resolves when so many requests have been answered that were sent after this call. */
export async function waitForAnswers({ seen }: SteadyTraffic<Sample>, requests: number): Promise<void> {
  const fromMs = performance.now()
  while (seen.filter(({ startMs }) => startMs >= fromMs).length < requests) await wait(5)
}

interface Exchange {
  readonly status: number
  readonly fields: IncomingMessage['headers']
  readonly body: string
  readonly beganMs: number
}

/** Never rejects: a connection that broke is status 0, with the reason as its body. */
async function fetchText(gateway: URL, sent: Sent & { readonly agent: Agent }): Promise<Exchange> {
  try {
    const response = await responseTo(openRequest(gateway, sent).end())
    const beganMs = performance.now()
    return { status: response.statusCode ?? 0, fields: response.headers, body: await text(response), beganMs }
  } catch (error) {
    return { status: 0, fields: {}, body: (error as Error).message, beganMs: performance.now() }
  }
}
