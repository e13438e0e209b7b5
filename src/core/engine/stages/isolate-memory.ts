/** Puts around a store what one isolate remembers of it: the status of keys, refusals that it repeats, and leases. */
import type { Store } from '../../model/store.ts'
import type { Clocks } from '../../runtime/clocks.ts'
import type { withLeases } from '../leases/with-leases.ts'
import { type RepeatedRefusals, withRefusalCache } from '../refusals/refusal-cache.ts'
import { StatusCache } from '../refusals/status-cache.ts'
import type { StageWatch } from './stage.ts'

export interface IsolateMemoryOptions extends Pick<Clocks, 'now' | 'readSteadyMs'> {
  readonly repeats: RepeatedRefusals
  /** `withLeases` of a size; without it, no permits are taken in advance. */
  readonly leases?: ReturnType<typeof withLeases> | undefined
  /** Deadline of a call. */
  readonly timeoutMs: number
  readonly watch?: StageWatch | undefined
}

export function withIsolateMemory(store: Store, options: IsolateMemoryOptions): Store {
  const { repeats, leases, now, readSteadyMs, timeoutMs, watch } = options
  if (repeats === 'none' && !leases) return store
  const statuses = new StatusCache()
  const cached = withRefusalCache(store, { statuses, repeats, now, watch })
  return leases?.(cached, { statuses, now, readSteadyMs, timeoutMs, watch }) ?? cached
}
