/** Callers with habits of their own, who spend what they have at several gateways. */
import { Agent } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { drawInteger, seededRandom } from '../../../tools/seeded-random.ts'
import { openRequest, responseTo } from '../../support/http-client.ts'
import type { Run } from '../kit/scenario.ts'
import { MAX_COST, type Policies } from './policies.ts'

/** What became of one request. */
export interface Outcome {
  readonly caller: number
  readonly team: number
  readonly cost: number
  readonly status: number
  /** It was not decided before this moment, by the clock that Redis goes by too. */
  readonly sentMs: number
  /** It was by this one: the request had reached the API, or the answer the client. */
  readonly decidedByMs: number
  /** What the gateway says of a decision that it took without Redis. */
  readonly degraded: string | undefined
}

/** A way of calling: so many requests at once, then a pause, each drawn anew. */
interface Habit {
  readonly burst: readonly [number, number]
  readonly pauseMs: readonly [number, number]
}

export interface TrafficOptions {
  readonly gateways: readonly URL[]
  readonly requests: number
  readonly callers: number
  readonly policies: Policies
  readonly run: Run
  /** If given, callers keep far from their limits for a while before they reach them, and go on until this is so. */
  readonly hasSeenEnough?: (outcomes: readonly Outcome[]) => boolean
}

const SOCKETS_PER_GATEWAY = 48

/** Of a caller that keeps far from its limits, at one gateway: requests at once, pauses, and how many of these in a row. */
const CALM = { burst: 8, pauseMs: [200, 280], times: [10, 20] } as const
/** Then so many at a time at every gateway until some are refused: the limit is reached while leases run. */
const STORM = 16
/** For each request of the options, at which a run ends that has still not seen enough. */
const MAX_REQUESTS = 10

/** @param windowMs the shortest window: some callers spend all of it at once, time and again as it ends */
function listHabits(windowMs: number): readonly Habit[] {
  return [
    // Far over the limits.
    { burst: [6, 16], pauseMs: [30, 120] },
    // A whole window's worth at the moment when the last one leaves.
    { burst: [15, 25], pauseMs: [windowMs - 4, windowMs + 4] },
    // Just under the limits.
    { burst: [1, 1], pauseMs: [50, 150] },
    { burst: [1, 6], pauseMs: [0, 1_500] },
    { burst: [1, 1], pauseMs: [500, 3_000] },
  ]
}

/**
 * Sends one request of each caller, one after the other and at a cost of 1, and then the others as callers with habits
 * of their own do, each request to a gateway at random.
 */
export async function sendTraffic(options: TrafficOptions): Promise<Outcome[]> {
  const { gateways, requests, callers, policies, run, hasSeenEnough } = options
  const teams = Math.ceil(callers / policies.callersPerTeam)
  const agent = new Agent({ keepAlive: true, maxSockets: SOCKETS_PER_GATEWAY })
  const random = seededRandom(run.seed)
  const outcomes: Outcome[] = []
  let left = requests

  async function call(caller: number, cost: number, at = drawGateway()): Promise<number> {
    left--
    const outcome = await request(gateways[at] as URL, agent, { caller, team: caller % teams, cost })
    outcomes.push(outcome)
    run.progress.answered++
    return outcome.status
  }
  async function follow(caller: number, { burst, pauseMs }: Habit): Promise<void> {
    while (left > 0 && !run.signal.aborted) {
      const count = Math.min(left, drawInteger(random, ...burst))
      await Promise.all(Array.from({ length: count }, () => call(caller, drawCost())))
      await pause(drawInteger(random, ...pauseMs))
    }
  }
  async function keepFarFromLimits(caller: number): Promise<void> {
    const isOver = () =>
      run.signal.aborted || (left <= 0 && (hasSeenEnough?.(outcomes) !== false || left <= -MAX_REQUESTS * requests))
    while (!isOver()) {
      const home = drawGateway()
      for (let times = drawInteger(random, ...CALM.times); times > 0 && !isOver(); times--) {
        await Promise.all(Array.from({ length: CALM.burst }, () => call(caller, 1, home)))
        await pause(drawInteger(random, ...CALM.pauseMs))
      }
      let statuses: readonly number[]
      do statuses = await Promise.all(Array.from({ length: STORM }, () => call(caller, drawCost())))
      while (!statuses.includes(429) && !isOver())
    }
  }
  const drawGateway = () => drawInteger(random, 0, gateways.length - 1)
  /** Mostly a low one. */
  const drawCost = () => 1 + Math.floor(MAX_COST * random() ** 3)

  const habits = listHabits(Math.min(...policies.caller.map(({ windowMs }) => windowMs)))
  try {
    for (let caller = 0; caller < callers; caller++) await call(caller, 1)
    await Promise.all(
      Array.from({ length: callers }, (_, caller) =>
        hasSeenEnough ? keepFarFromLimits(caller) : follow(caller, habits[caller % habits.length] as Habit),
      ),
    )
  } finally {
    agent.destroy()
  }
  return outcomes
}

async function request(gateway: URL, agent: Agent, call: Pick<Outcome, 'caller' | 'team' | 'cost'>): Promise<Outcome> {
  const { caller, team, cost } = call
  const headers = {
    Authorization: `Bearer caller-${caller}`,
    'X-Team': `team-${team}`,
    'X-Cost': String(cost),
    'Accept-Encoding': 'identity',
  }
  const client = openRequest(gateway, { path: '/things', agent, headers })
  let sentMs = 0
  // It may have waited for a connection.
  client.once('socket', () => {
    sentMs = Date.now()
  })
  const response = await responseTo(client.end()).catch((error: NodeJS.ErrnoException) => {
    // The gateway has closed an idle connection just then. Had it taken the request nevertheless, Redis's record would
    // have one more than the clients have.
    if (client.reusedSocket && error.code === 'ECONNRESET') return undefined
    throw error
  })
  if (!response) return request(gateway, agent, call)
  // The clock shows the beginning of its millisecond, and Redis dates admissions by the end of theirs.
  const decidedByMs = Number(response.headers['x-arrived-ms'] ?? Date.now() + 1)
  const degraded = response.headers['sluice-degraded']?.toString()
  await buffer(response)
  return { ...call, status: response.statusCode ?? 0, sentMs, decidedByMs, degraded }
}
