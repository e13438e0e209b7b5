import type { Decider } from '../engine/decider.ts'
import type { WatchShadow } from '../engine/governed.ts'
import type { Observer } from '../http/observer.ts'
import type { Store } from '../model/store.ts'
import type { ClaimReader } from '../request/identity/claims.ts'
import type { Log } from '../runtime/log.ts'
import { AllObservers } from '../statistics/all-observers.ts'
import { type AnalyticsDataset, AnalyticsWriter } from '../statistics/analytics.ts'
import { createLabelReader, type LabelSource } from '../statistics/label.ts'
import { MeasuredStore } from '../statistics/measured-store.ts'
import { Recorder, type RecorderOptions } from '../statistics/recorder.ts'
import { RefusalLog } from '../statistics/refusal-log.ts'
import type { Counters } from '../store/counters.ts'
import type { ObjectNamespace } from '../store/durable-object/objects.ts'
import { ObjectCounters } from '../store/durable-object/table-clients.ts'
import { MemoryCounters } from '../store/memory/memory-tables.ts'
import type { UpstashDatabase } from '../store/redis/upstash-backend.ts'
import { upstashCounters } from '../store/redis/upstash-tables.ts'
import type { CreateObserver } from './app.ts'

export interface StatisticsConfig {
  /** Whether requests are counted. */
  readonly isOn: boolean
  /** Of the refusals that are logged, 0 to 1. */
  readonly logShare: number
  /** Where the name stands by which people know a caller; undefined: nowhere. */
  readonly label: LabelSource | undefined
}

export interface StatisticsOptions {
  readonly config: StatisticsConfig
  /** Where the counts of all isolates come together; undefined: what this one counts stays in it. */
  readonly shared: SharedCounters | undefined
  /** First part of every key. */
  readonly keyPrefix: string
  readonly analytics: AnalyticsDataset | undefined
  /** Tells of the store that is charged beside; undefined: there is none. */
  readonly readShadow: RecorderOptions['readShadow']
  /** Undefined: no token can be verified. */
  readonly readClaim?: ClaimReader | undefined
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number
  readonly log: Log
}

/** A database, or the binding of Durable Objects. */
export type SharedCounters = UpstashDatabase | { readonly namespace: ObjectNamespace }

/** Everything that tells what happens to requests. */
export interface OpenStatistics {
  /** Where what is counted can be read; undefined if it is not. */
  readonly counters: Counters | undefined
  /** The same store, timed. */
  measured(store: Store): Store
  readonly createObserver: CreateObserver
  /** Undefined: requests are not counted. */
  readonly watchShadow: WatchShadow | undefined
}

/** Nobody waits for a flush; the next one is due after ten seconds. */
const FLUSH_TIMEOUT_MS = 4_000

const NOTHING_SAVED: Decider['savings'] = { byDenyCache: 0, byLeases: 0, permitsLeased: 0 }

export function openStatistics(options: StatisticsOptions): OpenStatistics {
  const { config, shared, keyPrefix, analytics, readShadow, readClaim, now, log } = options
  const { isOn, logShare: share, label } = config
  const readLabel = createLabelReader(label, readClaim)
  let decider: Pick<Decider, 'savings'> = { savings: NOTHING_SAVED }
  const observers: Observer[] = []
  let counters: Counters | undefined
  let recorder: Recorder | undefined
  if (isOn) {
    counters = shared ? countersIn(shared, keyPrefix) : new MemoryCounters(now)
    recorder = new Recorder({ counters, readSavings: () => decider.savings, readShadow, readLabel, now, wait, log })
    observers.push(recorder)
  }
  if (share > 0) observers.push(new RefusalLog({ share, readLabel, log, random: Math.random }))
  if (analytics) observers.push(new AnalyticsWriter(analytics, log))
  const [only, ...others] = observers
  const observer = only && others.length === 0 ? only : new AllObservers(observers)
  return {
    counters,
    watchShadow: recorder && ((differs, context) => recorder?.shadowCompared(differs, context)),
    measured: (store) => (recorder ? new MeasuredStore(store, recorder, now) : store),
    createObserver(gateway) {
      decider = gateway.decider
      return observer
    },
  }
}

function countersIn(shared: SharedCounters, keyPrefix: string): Counters {
  const options = { keyPrefix, timeoutMs: FLUSH_TIMEOUT_MS }
  return 'namespace' in shared
    ? new ObjectCounters({ ...shared, ...options })
    : upstashCounters({ ...shared, ...options })
}

function wait(ms: number): Promise<unknown> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
