import { runUs } from '../processor-time.ts'
import { median, quartiles } from '../statistics.ts'
import type { Bundle } from './bundle.ts'
import type { Variant } from './variants.ts'
import { type Gateway, startGateway } from './workerd.ts'
import { load } from './wrk.ts'

/** Before anything is counted: what is hot is still being compiled. */
const WARM_UP_S = 3
/** A gateway begins each slice as after a pause, with no leases. Of a short slice, that would be a large part. */
const SLICE_S = 2

export interface Pace {
  readonly perSecond: number
  /** Processor time of workerd for a request. */
  readonly us: number
}

/** Two gateways that were loaded in short turns; each figure is the median of all turns. */
export interface Comparison {
  readonly first: Pace
  readonly second: Pace
  /** Requests a second, first ÷ second. */
  readonly ofSpeed: number
  /** Between these lies the middle half of the turns. */
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
  /** How often each of them is loaded for a moment, in turns with the other. */
  readonly slices: number
}

export type Compared = Pick<Variant, 'source' | 'bindings'>

interface Turn {
  readonly first: Pace
  readonly second: Pace
}

/**
 * How two gateways compare on a machine that is not as fast in one minute as in the next: both live at the same time, and
 * what else the machine does hits both.
 */
export async function compare(first: Compared, second: Compared, options: CompareOptions): Promise<Comparison> {
  const turns: Turn[] = []
  for (let repetition = 0; repetition < options.repetitions; repetition++) {
    turns.push(...(await takeTurns(first, second, options)))
  }
  const middle = (of: (turn: Turn) => number) => median(turns.map(of))
  const pace = (of: (turn: Turn) => Pace): Pace => {
    return { perSecond: middle((turn) => of(turn).perSecond), us: middle((turn) => of(turn).us) }
  }
  const speeds = turns.map((turn) => turn.first.perSecond / turn.second.perSecond)
  return {
    first: pace((turn) => turn.first),
    second: pace((turn) => turn.second),
    ofSpeed: median(speeds),
    ofSpeedMiddle: quartiles(speeds),
    ofProcessor: middle((turn) => turn.second.us / turn.first.us),
  }
}

async function takeTurns(one: Compared, other: Compared, options: CompareOptions): Promise<Turn[]> {
  await using first = await start(one, options)
  await using second = await start(other, options)
  const { callers, slices } = options
  await slice(first, callers, WARM_UP_S)
  await slice(second, callers, WARM_UP_S)
  const turns: Turn[] = []
  for (let turn = 0; turn < slices; turn++) {
    // Neither is always the first.
    if (turn % 2 === 0) turns.push({ first: await slice(first, callers), second: await slice(second, callers) })
    else turns.push({ second: await slice(second, callers), first: await slice(first, callers) })
  }
  return turns
}

async function start(
  { source, bindings: own }: Compared,
  { bundles, bindings }: CompareOptions,
): Promise<Gateway & AsyncDisposable> {
  const bundle = bundles.get(source)
  if (!bundle) throw new Error(`no bundle of ${source}`)
  const gateway = await startGateway(bundle, { bindings: { ...bindings, ...own } })
  return { ...gateway, [Symbol.asyncDispose]: gateway.stop }
}

async function slice(gateway: Gateway, callers: number, seconds = SLICE_S): Promise<Pace> {
  const beforeUs = runUs(gateway.pid)
  const { requestsPerSecond, sent, failed } = await load({ url: gateway.url, name: 'compared', callers, seconds })
  if (failed > 0) throw new Error(`${failed} requests failed`)
  return { perSecond: requestsPerSecond, us: (runUs(gateway.pid) - beforeUs) / sent }
}
