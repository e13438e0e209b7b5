/** Bounded traffic over connections that are kept: in lanes, or at a steady rate. */
import { Agent } from 'node:http'
import type { Run } from './scenario.ts'

const TICK_MS = 5

/** Sends one request, the `index`th of all. */
export type SendOne<Seen> = (index: number, agent: Agent) => Promise<Seen>

export interface Lanes {
  readonly requests: number
  /** In each, a request is sent when the one before is answered. */
  readonly lanes: number
  /** Nothing more is sent when its signal is aborted. */
  readonly run?: Pick<Run, 'signal' | 'progress'>
}

/** Sends so many requests in lanes. @returns what became of them, in the order in which they were answered */
export async function sendInLanes<Seen>({ requests, lanes, run }: Lanes, send: SendOne<Seen>): Promise<Seen[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: lanes })
  const seen: Seen[] = []
  let next = 0
  const drive = async () => {
    while (next < requests && !run?.signal.aborted) {
      seen.push(await send(next++, agent))
      if (run) run.progress.answered++
    }
  }
  try {
    await Promise.all(Array.from({ length: lanes }, drive))
  } finally {
    agent.destroy()
  }
  return seen
}

export interface Rate {
  readonly ratePerS: number
  /** None is sent while so many are in flight, so that a busy machine is given fewer. */
  readonly maxInFlight: number
  readonly progress?: Run['progress']
}

export interface SteadyTraffic<Seen> {
  /** What became of the requests that were answered so far. */
  readonly seen: readonly Seen[]
  readonly peakInFlight: number
  /** Resolves when all have been answered that are in flight at this call. */
  drain(): Promise<void>
  /** Sends nothing more, and resolves when all that was sent has been answered. */
  stop(): Promise<readonly Seen[]>
}

/** Sends requests at a steady rate, whatever becomes of them. */
export function sendSteadily<Seen>(
  { ratePerS, maxInFlight, progress }: Rate,
  send: SendOne<Seen>,
): SteadyTraffic<Seen> {
  const agent = new Agent({ keepAlive: true })
  const seen: Seen[] = []
  const pending = new Set<Promise<unknown>>()
  const beganMs = performance.now()
  let [sent, peakInFlight] = [0, 0]
  const timer = setInterval(() => {
    const due = ((performance.now() - beganMs) / 1_000) * ratePerS
    while (sent < due && pending.size < maxInFlight) {
      const exchange = send(sent++, agent)
        .then((one) => {
          seen.push(one)
          if (progress) progress.answered++
        })
        .finally(() => pending.delete(exchange))
      pending.add(exchange)
    }
    peakInFlight = Math.max(peakInFlight, pending.size)
  }, TICK_MS)
  const drain = async () => void (await Promise.all(pending))
  return {
    seen,
    get peakInFlight() {
      return peakInFlight
    },
    drain,
    async stop() {
      clearInterval(timer)
      await drain()
      agent.destroy()
      return seen
    },
  }
}
