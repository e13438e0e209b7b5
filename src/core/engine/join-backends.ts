/** Makes one backend of those of several databases. */
import type { Shard } from '../model/store.ts'
import type { Backend } from '../store/backend.ts'
import { addCounts, addTo, type Period, type StatisticsStore } from '../store/counters.ts'
import type { GuardOptions } from './places/guarded-place.ts'
import { findLayouts, findShard, withShards } from './places/shards.ts'

/**
 * Shares out limits by identity, and statistics by who counts them. Documents are kept in the first database.
 * @param shards each layout has at least one
 */
export function joinBackends(
  shards: readonly (Shard & { readonly backend: Backend })[],
  options: GuardOptions,
): Backend {
  const [first] = shards
  if (!first) throw new Error('a backend of no shards')
  return {
    limits: withShards(
      shards.map(({ name, state, backend }) => ({ name, state, store: backend.limits })),
      options,
    ),
    documents: (key) => first.backend.documents(key),
    documentsOfEach: (key) => Promise.all(shards.map(({ backend }) => backend.documents(key))),
    async counters(options) {
      return joinCounters(
        await Promise.all(shards.map(async (shard) => ({ ...shard, counters: await shard.backend.counters(options) }))),
      )
    },
  }
}

/** A flush that is sent again goes where it went before. A sum without one of the databases would be too low. */
export function joinCounters(shards: readonly (Shard & { readonly counters: StatisticsStore })[]): StatisticsStore {
  const { next } = findLayouts(shards)
  return {
    add: (flush) => findShard(flush.source, next).counters.add(flush),
    async read(...range) {
      const merged = new Map<number, { readonly startMs: number } & Parameters<typeof addTo>[0]>()
      const periods: readonly (readonly Period[])[] = await Promise.all(
        shards.map(({ counters }) => counters.read(...range)),
      )
      for (const period of periods.flat()) {
        const { startMs } = period
        const sum = merged.get(startMs) ?? { startMs, counts: new Map(), sketches: new Map() }
        merged.set(startMs, sum)
        addTo(sum, period)
      }
      return [...merged.values()].sort((a, b) => a.startMs - b.startMs)
    },
    async readTotals() {
      const totals = new Map<string, number>()
      for (const counts of await Promise.all(shards.map(({ counters }) => counters.readTotals()))) {
        addCounts(totals, counts)
      }
      return totals
    },
  }
}
