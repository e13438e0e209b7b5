/** Measures the throughput of a gateway with and without the features that operators turn on. */
import { type CompareOptions, type Comparison, compare } from './compare.ts'
import { HOT } from './measure.ts'
import type { Variant } from './variants.ts'

const STATISTICS = { STATISTICS: 'on', LOG_REFUSALS: '0.01' }
const SETTINGS = {
  statistics: STATISTICS,
  'statistics and rules': { ...STATISTICS, RULES: 'on' },
}

/** On ÷ off. */
export interface OperateFigures extends Comparison {
  readonly variant: string
  /** The features that are turned on. */
  readonly setting: string
}

export interface OperateBenchOptions extends Omit<CompareOptions, 'latencyMs' | 'callers'> {
  readonly variants: readonly Variant[]
}

export async function measureOperate({ variants, ...options }: OperateBenchOptions): Promise<OperateFigures[]> {
  const figures: OperateFigures[] = []
  for (const off of variants) {
    for (const [setting, bindings] of Object.entries(SETTINGS)) {
      const on = { source: off.source, bindings: { ...off.bindings, ...bindings } }
      const comparison = await compare(on, off, { ...options, latencyMs: 0, callers: HOT })
      figures.push({ variant: off.name, setting, ...comparison })
    }
  }
  return figures
}
