import type { Bundle } from '../../test/support/build-bundle.ts'
import { startDirectGateway } from '../../test/support/direct-gateway.ts'
import { runUs } from '../processor-time.ts'
import { medians } from '../statistics.ts'
import type { Peeked } from './object-worker.ts'

/** A Worker with one object, which can be filled and evicted. */
export const OBJECT_WORKER = 'bench/stores/object-worker.ts'
/** In the window of a log. */
const ENTRIES = [1_000, 100_000] as const

/** What the first call after an eviction takes, above a call that finds the object awake. */
export interface LoadFigures {
  readonly entries: number
  readonly elapsedMs: number
  /** Of workerd. */
  readonly processorMs: number
  readonly rowsRead: number
}

export interface LoadBenchOptions {
  readonly bundles: ReadonlyMap<string, Bundle>
  readonly loads: number
}

/** Loads an object from its database on disk, again and again. */
export async function measureLoads({ bundles, loads }: LoadBenchOptions): Promise<LoadFigures[]> {
  const bundle = bundles.get(OBJECT_WORKER)
  if (!bundle) throw new Error(`no bundle of ${OBJECT_WORKER}`)
  const figures: LoadFigures[] = []
  for (const entries of ENTRIES) {
    const host = await startDirectGateway({ bundle, bindings: {}, objects: 'disk' })
    try {
      const ask = async (path: string) => (await fetch(new URL(path, host.url))).json()
      const charged = await ask(`/fill?entries=${entries}`)
      if (charged !== entries) throw new Error(`${charged} of ${entries} entries were charged`)
      const peek = async () => {
        const before = { us: runUs(host.pid), ms: performance.now() }
        const { used, rowsRead } = (await ask('/peek')) as Peeked
        if (used !== entries) throw new Error(`${used} of ${entries} entries were loaded`)
        return {
          elapsedMs: performance.now() - before.ms,
          processorMs: (runUs(host.pid) - before.us) / 1_000,
          rowsRead,
        }
      }
      const runs: Omit<LoadFigures, 'entries'>[] = []
      // The first compiles what is hot.
      for (let load = 0; load <= loads; load++) {
        await fetch(new URL('/evict', host.url))
        const evicted = await peek()
        const awake = await peek()
        if (load === 0) continue
        runs.push({
          elapsedMs: evicted.elapsedMs - awake.elapsedMs,
          processorMs: evicted.processorMs - awake.processorMs,
          rowsRead: evicted.rowsRead,
        })
      }
      figures.push({ entries, ...medians(runs) })
    } finally {
      await host.stop()
    }
  }
  return figures
}
