/** Opens what observes requests, as a configuration says. */
import type { Log } from '../../core/runtime/log.ts'
import { sleep } from '../../core/runtime/sleep.ts'
import type { StatisticsStore } from '../../core/store/counters.ts'
import type { Config } from '../../http/config/load-config.ts'
import type { ClaimReader } from '../../http/request/identity/claims.ts'
import type { Observer } from '../../http/response/exchange.ts'
import { createLabelReader } from './label.ts'
import { createAnalyticsWriter, createRefusalLog, joinObservers } from './observers.ts'
import { Recorder } from './recorder.ts'

export interface StatisticsOptions {
  readonly config: Pick<Config, 'statistics'>
  /** Sums the counts of all isolates; undefined: requests are not counted. */
  readonly counters: StatisticsStore | undefined
  readonly analytics: AnalyticsEngineDataset | undefined
  readonly readClaim: ClaimReader | undefined
  readonly now: () => number
  readonly log: Log
  /** Aborts when the process is about to end: what was counted is then sent at once. */
  readonly ending?: AbortSignal | undefined
}

export function openStatistics(options: StatisticsOptions) {
  const { config, counters, analytics, readClaim, now, log, ending } = options
  const { label, logShare, keepsRecent } = config.statistics
  const readLabel = createLabelReader(label, readClaim)
  const wait = (ms: number) => (ending ? sleep(ms, ending).catch(() => {}) : sleep(ms))
  const recorder = counters && new Recorder({ counters, readLabel, keepsRecent, now, wait, log })
  const observers: Observer[] = recorder ? [recorder] : []
  if (logShare > 0) observers.push(createRefusalLog({ share: logShare, readLabel, log, random: Math.random }))
  if (analytics) observers.push(createAnalyticsWriter(analytics, log))
  return { observer: joinObservers(observers), recorder }
}
