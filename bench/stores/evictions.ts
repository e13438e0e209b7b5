/** Measures the extra time of the first call to an object that was evicted. */
import { readRunUs } from '../processor-time.ts'
import type { Site } from '../site.ts'
import { type Spread, summarize } from '../statistics.ts'

/** Entries in the window of a log. */
const ENTRIES = [1_000, 100_000] as const
const EVICTIONS = 9

export interface EvictionFigures {
  readonly entries: number
  /** Processor time of workerd. */
  readonly processorMs: Spread
}

/** Loads an object from its database on disk, again and again. */
export async function measureEvictions(site: Site): Promise<EvictionFigures[]> {
  const figures: EvictionFigures[] = []
  for (const entries of ENTRIES) {
    const worker = { source: 'bench/stores/object-worker.ts', bindings: {} }
    await using host = await site.startGateway(worker, { objects: 'disk' })
    const ask = async (path: string) => (await fetch(new URL(path, host.url))).json()
    const charged = await ask(`/fill?entries=${entries}`)
    if (charged !== entries) throw new Error(`${charged} of ${entries} entries were charged`)
    const measurePeek = async () => {
      const beforeUs = readRunUs(host.pid)
      const used = await ask('/peek')
      if (used !== entries) throw new Error(`${used} of ${entries} entries were loaded`)
      return (readRunUs(host.pid) - beforeUs) / 1_000
    }
    const runs: number[] = []
    for (let eviction = 0; eviction <= EVICTIONS; eviction++) {
      await fetch(new URL('/evict', host.url))
      const [evictedMs, awakeMs] = [await measurePeek(), await measurePeek()]
      // The first compiles what is hot.
      if (eviction > 0) runs.push(evictedMs - awakeMs)
    }
    figures.push({ entries, processorMs: summarize(runs) })
  }
  return figures
}
