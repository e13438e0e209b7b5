import type { Bundle } from '../../test/support/build-bundle.ts'
import { type DirectGateway, startDirectGateway } from '../../test/support/direct-gateway.ts'
import { runUs } from '../processor-time.ts'
import { median, quartiles } from '../statistics.ts'
import type { Variant } from './variants.ts'
import { load } from './wrk.ts'

/** Before anything is counted: what is hot is compiled within the first few hundred requests. */
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
  /** Requests a second, first ÷ second. */
  readonly ofSpeed: number
  /** Between these lies the middle half of the slices. */
  readonly ofSpeedMiddle: readonly [low: number, high: number]
  /** Requests by the same processor time, first ÷ second. */
  readonly ofProcessor: number
}

export interface CompareOptions {
  readonly bundles: ReadonlyMap<string, Bundle>
  /** Bound in both, besides what is their own. */
  readonly bindings: Readonly<Record<string, string>>
  readonly callers: number
  /** Pairs of processes: two of the same gateway can differ for as long as they live. */
  readonly repetitions: number
  /** How often both are loaded for a moment. */
  readonly slices: number
}

export type Compared = Pick<Variant, 'source' | 'bindings'>

/** Of both gateways, in the same moments. */
type Slice = readonly [first: Pace, second: Pace]

/**
 * How two gateways compare on a machine that is not as fast in one second as in the next: both are loaded at the same
 * time, so that what else the machine does hits both alike.
 */
export async function compare(first: Compared, second: Compared, options: CompareOptions): Promise<Comparison> {
  const slices: Slice[] = []
  for (let repetition = 0; repetition < options.repetitions; repetition++) {
    slices.push(...(await loadBoth(first, second, options)))
  }
  const middle = (of: (slice: Slice) => number) => median(slices.map(of))
  const pace = (at: 0 | 1): Pace => {
    return { perSecond: middle((slice) => slice[at].perSecond), us: middle((slice) => slice[at].us) }
  }
  const speeds = slices.map(([one, other]) => one.perSecond / other.perSecond)
  return {
    first: pace(0),
    second: pace(1),
    ofSpeed: median(speeds),
    ofSpeedMiddle: quartiles(speeds),
    ofProcessor: middle(([one, other]) => other.us / one.us),
  }
}

async function loadBoth(first: Compared, second: Compared, options: CompareOptions): Promise<Slice[]> {
  await using one = await start(first, options)
  await using other = await start(second, options)
  const loadFor = (seconds: number): Promise<Slice> => {
    return Promise.all([paceOf(one, options.callers, seconds), paceOf(other, options.callers, seconds)])
  }
  await loadFor(WARM_UP_S)
  const slices: Slice[] = []
  while (slices.length < options.slices) slices.push(await loadFor(SLICE_S))
  return slices
}

async function start(
  { source, bindings: own }: Compared,
  { bundles, bindings }: CompareOptions,
): Promise<DirectGateway & AsyncDisposable> {
  const bundle = bundles.get(source)
  if (!bundle) throw new Error(`no bundle of ${source}`)
  const gateway = await startDirectGateway({ bundle, bindings: { ...bindings, ...own } })
  return { ...gateway, [Symbol.asyncDispose]: gateway.stop }
}

async function paceOf({ url, pid }: DirectGateway, callers: number, seconds: number): Promise<Pace> {
  const beforeUs = runUs(pid)
  // Callers of its own, so that no gateway reads what the other has written.
  const { requestsPerSecond, sent, failed } = await load({ url: url.origin, name: `compared-${pid}`, callers, seconds })
  if (failed > 0) throw new Error(`${failed} requests failed`)
  return { perSecond: requestsPerSecond, us: (runUs(pid) - beforeUs) / sent }
}
