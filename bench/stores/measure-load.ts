/** Measures the extra time of the first call after an eviction. */
import { readRunUs } from '../processor-time.ts'
import type { Site } from '../site.ts'
import { computeMedian } from '../statistics.ts'

/** Entries in the window of a log. */
const ENTRIES = [1_000, 100_000] as const

export interface LoadFigures {
  readonly entries: number
  /** Processor time of workerd. */
  readonly processorMs: number
}

/** Loads an object from its database on disk, again and again. */
export async function measureLoads(site: Site, loads: number): Promise<LoadFigures[]> {
  const figures: LoadFigures[] = []
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
    for (let load = 0; load <= loads; load++) {
      await fetch(new URL('/evict', host.url))
      const [evictedMs, awakeMs] = [await measurePeek(), await measurePeek()]
      // The first compiles what is hot.
      if (load > 0) runs.push(evictedMs - awakeMs)
    }
    figures.push({ entries, processorMs: computeMedian(runs) })
  }
  return figures
}
