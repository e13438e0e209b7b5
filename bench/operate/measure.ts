import type { Bundle } from '../gateway/bundle.ts'
import { FLOODED, LEASED, PLAIN, SLUICE } from '../gateway/variants.ts'
import { type Gateway, startGateway } from '../gateway/workerd.ts'
import { load } from '../gateway/wrk.ts'
import { runUs } from '../processor-time.ts'
import { type Service, serviceBindings } from '../services.ts'
import { median } from '../statistics.ts'

/** What operators turn on. */
const STATISTICS = { STATISTICS: 'on', LOG_LIMITED: '0.01' }
const SETTINGS = [
  { name: 'statistics', bindings: STATISTICS },
  { name: 'statistics and rules', bindings: { ...STATISTICS, RULES: 'on' } },
]

export interface OperateFigures {
  readonly variant: string
  /** What is turned on. */
  readonly setting: string
  /** Requests a second, off and on. */
  readonly offPerSecond: number
  readonly onPerSecond: number
  /** Processor time of workerd for a request, off and on. */
  readonly offUs: number
  readonly onUs: number
  /** Requests that a processor answers on ÷ off: the median of all turns. */
  readonly ofProcessor: number
  /** Requests a second on ÷ off: the median of all turns. */
  readonly ofSpeed: number
}

export interface OperateBenchOptions {
  readonly upstream: Service
  readonly front: Service
  readonly token: string
  readonly bundles: ReadonlyMap<string, Bundle>
  /** Pairs of processes: two of the same gateway can differ for as long as they live. */
  readonly repetitions: number
  /** Slices that each of them is loaded for, in turns with the other. */
  readonly slices: number
}

interface Slice {
  readonly perSecond: number
  readonly us: number
}

/** Loads the same gateway with and without what operators turn on, in short turns, so that what else the machine does hits both. */
export async function measureOperate(options: OperateBenchOptions): Promise<OperateFigures[]> {
  const figures: OperateFigures[] = []
  for (const variant of [PLAIN, LEASED, FLOODED]) {
    for (const { name: setting, bindings } of SETTINGS) {
      const pairs: { readonly off: Slice; readonly on: Slice }[] = []
      for (let repetition = 0; repetition < options.repetitions; repetition++) {
        pairs.push(...(await measurePairs(variant.bindings, bindings, options)))
      }
      const middle = (of: (pair: (typeof pairs)[number]) => number) => median(pairs.map(of))
      figures.push({
        ...{ variant: variant.name, setting },
        offPerSecond: middle(({ off }) => off.perSecond),
        onPerSecond: middle(({ on }) => on.perSecond),
        offUs: middle(({ off }) => off.us),
        onUs: middle(({ on }) => on.us),
        ofProcessor: middle(({ off, on }) => off.us / on.us),
        ofSpeed: middle(({ off, on }) => on.perSecond / off.perSecond),
      })
    }
  }
  return figures
}

type Bindings = Readonly<Record<string, string>>

async function measurePairs(own: Bindings, turnedOn: Bindings, options: OperateBenchOptions) {
  const { bundles, upstream, front, token, slices } = options
  const bundle = bundles.get(SLUICE)
  if (!bundle) throw new Error(`no bundle of ${SLUICE}`)
  const all = { ...serviceBindings({ upstream, front, token }), ...own }
  const off = await startGateway(bundle, { bindings: all })
  const on = await startGateway(bundle, { bindings: { ...all, ...turnedOn } })
  try {
    // Compiles what is hot.
    await slice(off)
    await slice(on)
    const pairs: { off: Slice; on: Slice }[] = []
    for (let turn = 0; turn < slices; turn++) {
      // Neither is always the first.
      if (turn % 2 === 0) pairs.push({ off: await slice(off), on: await slice(on) })
      else pairs.push({ on: await slice(on), off: await slice(off) })
    }
    return pairs
  } finally {
    await Promise.all([off.stop(), on.stop()])
  }
}

async function slice(gateway: Gateway): Promise<Slice> {
  const beforeUs = runUs(gateway.pid)
  const { requestsPerSecond, sent } = await load({ url: gateway.url, name: 'operate', callers: 1, seconds: 1 })
  return { perSecond: requestsPerSecond, us: (runUs(gateway.pid) - beforeUs) / sent }
}
