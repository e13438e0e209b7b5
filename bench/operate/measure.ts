import { type CompareOptions, type Comparison, compare } from '../gateway/compare.ts'
import { HOT } from '../gateway/measure.ts'
import type { Variant } from '../gateway/variants.ts'
import { type Service, serviceBindings } from '../services.ts'

/** What operators turn on. */
const STATISTICS = { STATISTICS: 'on', LOG_REFUSALS: '0.01' }
const SETTINGS = [
  { name: 'statistics', bindings: STATISTICS },
  { name: 'statistics and rules', bindings: { ...STATISTICS, RULES: 'on' } },
]

/** On beside off. */
export interface OperateFigures extends Comparison {
  readonly variant: string
  /** What is turned on. */
  readonly setting: string
}

export interface OperateBenchOptions extends Omit<CompareOptions, 'bindings' | 'callers'> {
  readonly upstream: Service
  readonly front: Service
  readonly token: string
  readonly variants: readonly Variant[]
}

/** The same gateway with and without what operators turn on. */
export async function measureOperate({
  upstream,
  front,
  token,
  variants,
  ...options
}: OperateBenchOptions): Promise<OperateFigures[]> {
  const figures: OperateFigures[] = []
  const bindings = serviceBindings({ upstream, front, token })
  for (const off of variants) {
    for (const { name: setting, bindings: turnedOn } of SETTINGS) {
      const on = { source: off.source, bindings: { ...off.bindings, ...turnedOn } }
      const comparison = await compare(on, off, { ...options, bindings, callers: HOT })
      figures.push({ variant: off.name, setting, ...comparison })
    }
  }
  return figures
}
