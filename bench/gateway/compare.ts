/**
 * How two gateways compare on a machine that is not as fast in one second as in the next: both are loaded at the same
 * time, so that what else the machine does hits both alike.
 */
import type { DirectGateway } from '../../test/support/direct-gateway.ts'
import { readRunUs } from '../processor-time.ts'
import type { GatewayWorker, Site } from '../site.ts'
import { type Spread, summarize } from '../statistics.ts'
import { type Fields, load } from './wrk.ts'

/** Not counted, for each number of callers: what is hot is compiled within the first few hundred requests. */
const WARM_UP_S = 1

/** The requests that both gateways get. */
export interface Traffic {
  readonly callers: number
  readonly fields: Fields
}

/** Two gateways that were loaded at the same time; of each pair of processes, one slice counts. */
export interface Comparison {
  /** Processor time of workerd for a request. */
  readonly firstUs: Spread
  readonly secondUs: Spread
  /** Requests by the same processor time, first ÷ second. */
  readonly ofProcessor: Spread
}

export interface CompareOptions {
  readonly site: Site
  /** The answers of Redis come later by this. */
  readonly latencyMs: number
  /** Pairs of processes: two of the same gateway can differ for as long as they live. */
  readonly repetitions: number
  readonly sliceSeconds: number
}

/** The processor time of a request of both gateways in the same moments. */
type Slice = readonly [firstUs: number, secondUs: number]

/** @returns a comparison for each kind of traffic, which the same processes get one after the other */
export async function compare(
  first: GatewayWorker,
  second: GatewayWorker,
  kinds: readonly Traffic[],
  options: CompareOptions,
): Promise<Comparison[]> {
  const turns: Slice[][] = []
  while (turns.length < options.repetitions) turns.push(await loadBoth(first, second, kinds, options))
  return kinds.map((_, at) => {
    const slices = turns.map((turn) => turn[at] as Slice)
    return {
      firstUs: summarize(slices.map(([us]) => us)),
      secondUs: summarize(slices.map(([, us]) => us)),
      ofProcessor: summarize(slices.map(([us, otherUs]) => otherUs / us)),
    }
  })
}

async function loadBoth(
  first: GatewayWorker,
  second: GatewayWorker,
  kinds: readonly Traffic[],
  { site, latencyMs, sliceSeconds }: CompareOptions,
): Promise<Slice[]> {
  await using one = await site.startGateway(first, { latencyMs })
  await using other = await site.startGateway(second, { latencyMs })
  const loadFor = (traffic: Traffic, seconds: number): Promise<Slice> => {
    return Promise.all([measureUs(one, traffic, seconds), measureUs(other, traffic, seconds)])
  }
  const slices: Slice[] = []
  let known = 0
  for (const traffic of kinds) {
    if (traffic.callers !== known) await loadFor(traffic, WARM_UP_S)
    known = traffic.callers
    slices.push(await loadFor(traffic, sliceSeconds))
  }
  return slices
}

async function measureUs({ url, pid }: DirectGateway, traffic: Traffic, seconds: number): Promise<number> {
  const beforeUs = readRunUs(pid)
  // Callers of its own, so that no gateway reads what the other has written.
  const { sent, failed } = await load({ url: url.origin, name: `compared-${pid}`, ...traffic, seconds })
  if (failed > 0) throw new Error(`${failed} requests failed`)
  return (readRunUs(pid) - beforeUs) / sent
}
