/** Opens where counts, rules and statistics live, and what observes requests. */
import type { Store } from '../../core/model/store.ts'
import type { Backend } from '../../core/store/backend.ts'
import type { StatisticsStore } from '../../core/store/counters.ts'
import { isBinding } from '../../http/config/load-config.ts'
import type { ClaimReader } from '../../http/request/identity/claims.ts'
import type { openStatistics } from '../statistics/open-statistics.ts'
import { openBackend } from './open-backend.ts'
import type { Setting } from './setting.ts'

/** No response waits for a flush of statistics; the next one is due after 20 seconds. */
const FLUSH_TIMEOUT_MS = 4_000

export interface Stores extends Partial<ReturnType<typeof openStatistics>> {
  readonly backend: Backend
  /** Receives every charge before it takes over. */
  readonly mirror: Backend | undefined
  /** Takes the charges: it is timed, and passes them on to the mirror. */
  readonly store: Store
  readonly counters: StatisticsStore | undefined
  readonly readClaim: ClaimReader | undefined
}

export async function openStores(setting: Setting): Promise<Stores> {
  const { env, config, host, clocks, log } = setting
  const { keyPrefix, jwt, statistics, storeMirror, storeTimeoutMs: timeoutMs } = config
  const { now, readLatestMs = now } = clocks
  const backend = host.open?.(config, readLatestMs) ?? (await openBackend[config.store](setting))
  const mirror = storeMirror && (await openBackend[storeMirror](setting))

  const readClaim = jwt
    ? await (await import('../../http/request/identity/jwt/verify-tokens.ts')).loadTokenVerifier(jwt, {
        fetch: (url, init) => fetch(url, init),
        now,
        log,
      })
    : undefined

  const analytics = isBinding<AnalyticsEngineDataset>(env.ANALYTICS, 'writeDataPoint') ? env.ANALYTICS : undefined
  const counters = statistics.isOn ? await backend.counters({ keyPrefix, timeoutMs: FLUSH_TIMEOUT_MS }) : undefined
  const { ending } = host
  const observed =
    counters || statistics.logShare > 0 || analytics
      ? (await import('../statistics/open-statistics.ts')).openStatistics({
          ...{ config, counters, analytics, readClaim, now, log, ending },
        })
      : undefined

  const watch = observed?.recorder
  const { limits } = backend
  const mirrored = mirror
    ? (await import('../../core/engine/stages/mirror.ts')).withMirror(limits, {
        ...{ mirror: mirror.limits, watch, now, timeoutMs, log },
      })
    : limits
  return { backend, mirror, store: watch?.withTiming(mirrored) ?? mirrored, counters, readClaim, ...observed }
}
