import type { StatisticsStore } from '../../src/store/counters.ts'

/** Counters under test, with keys of their own. @param keyPrefix other counters with the same one are the same */
export type CountersOf = (keyPrefix: string) => StatisticsStore

/** All that the contract suite runs over, by name: those that need TCP run on Node, the others on workerd. */
export const COUNTERS: Record<string, CountersOf> =
  navigator.userAgent === 'Cloudflare-Workers'
    ? (await import('./worker-counters.ts')).WORKER_COUNTERS
    : (await import('./tcp-counters.ts')).TCP_COUNTERS
