import type { LeaseFigures } from './accuracy/leases.ts'
import type { AccuracyFigures } from './accuracy/measure.ts'
import type { GatewayFigures } from './gateway/measure.ts'
import type { Machine } from './machine.ts'
import type { RedisFigures } from './redis/measure.ts'
import type { WorstFigures } from './worst/measure.ts'

/** One run. A section that was not asked for is missing. */
export interface Results {
  readonly machine: Machine
  readonly isQuick: boolean
  readonly redis?: readonly RedisFigures[]
  readonly gateway?: readonly GatewayFigures[]
  /** KiB, gzipped, of each Worker. */
  readonly bundles?: Readonly<Record<string, number>>
  readonly accuracy?: readonly AccuracyFigures[]
  readonly service?: readonly AccuracyFigures[]
  /** Of each gateway an ordinary request first, then the worst found. */
  readonly worst?: readonly WorstFigures[]
  readonly leases?: readonly LeaseFigures[]
}
