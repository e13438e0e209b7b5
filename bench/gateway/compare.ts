/**
 * How two gateways compare on a machine that is not as fast in one second as in the next: both are loaded at the same
 * time, so that what else the machine does hits both alike.
 */
import type { DirectGateway } from '../../test/support/direct-gateway.ts'
import { readRunUs } from '../processor-time.ts'
import type { GatewayWorker, Site } from '../site.ts'
import { computeMedian } from '../statistics.ts'
import { load } from './wrk.ts'

/** Nothing is counted before: what is hot is compiled within the first few hundred requests. */
const WARM_UP_S = 1
/** A gateway begins each slice as after a pause, with no leases. Of a short slice, that would be a large part. */
const SLICE_S = 2

export interface Pace {
  readonly perSecond: number
  /** Processor time of workerd for a request. */
  readonly us: number
}

/** Two gateways that were loaded at the same time; each figure is the median of all slices of it. */
export interface Comparison {
  readonly first: Pace
  readonly second: Pace
  /** Requests by the same processor time, first ÷ second. */
  readonly ofProcessor: number
}

export interface CompareOptions {
  readonly site: Site
  /** The answers of Redis come later by this. */
  readonly latencyMs: number
  readonly callers: number
  /** Pairs of processes: two of the same gateway can differ for as long as they live. */
  readonly repetitions: number
  /** How often both are loaded for a moment. */
  readonly slices: number
}

/** The paces of both gateways in the same moments. */
type Slice = readonly [first: Pace, second: Pace]

export async function compare(
  first: GatewayWorker,
  second: GatewayWorker,
  options: CompareOptions,
): Promise<Comparison> {
  const slices: Slice[] = []
  for (let repetition = 0; repetition < options.repetitions; repetition++) {
    slices.push(...(await loadBoth(first, second, options)))
  }
  const summarize = (read: (slice: Slice) => number) => computeMedian(slices.map(read))
  const toPace = (at: 0 | 1): Pace => {
    return { perSecond: summarize((slice) => slice[at].perSecond), us: summarize((slice) => slice[at].us) }
  }
  return { first: toPace(0), second: toPace(1), ofProcessor: summarize(([one, other]) => other.us / one.us) }
}

async function loadBoth(
  first: GatewayWorker,
  second: GatewayWorker,
  { site, latencyMs, callers, slices: count }: CompareOptions,
): Promise<Slice[]> {
  await using one = await site.startGateway(first, { latencyMs })
  await using other = await site.startGateway(second, { latencyMs })
  const loadFor = (seconds: number): Promise<Slice> => {
    return Promise.all([measurePace(one, callers, seconds), measurePace(other, callers, seconds)])
  }
  await loadFor(WARM_UP_S)
  const slices: Slice[] = []
  while (slices.length < count) slices.push(await loadFor(SLICE_S))
  return slices
}

async function measurePace({ url, pid }: DirectGateway, callers: number, seconds: number): Promise<Pace> {
  const beforeUs = readRunUs(pid)
  // Callers of its own, so that no gateway reads what the other has written.
  const { requestsPerSecond, sent, failed } = await load({ url: url.origin, name: `compared-${pid}`, callers, seconds })
  if (failed > 0) throw new Error(`${failed} requests failed`)
  return { perSecond: requestsPerSecond, us: (readRunUs(pid) - beforeUs) / sent }
}
