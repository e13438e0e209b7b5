import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { buildWorker, gzippedBytes } from '../../tools/build-worker.ts'

export interface Bundle {
  /** What Wrangler would upload. */
  readonly folder: string
  /** Names of its files, the entry first. */
  readonly modules: readonly string[]
  /** Of what every isolate loads. */
  readonly gzipBytes: number
}

/**
 * Bundles a Worker as Sluice itself is built.
 * @param source relative to the root, e.g. `src/worker.ts`
 */
export async function bundle(source: string, into: string, options?: { minify?: boolean }): Promise<Bundle> {
  const folder = join(into, source.replaceAll(/\W/g, '-'))
  await mkdir(folder)
  const { script, lazy } = await buildWorker(source, folder, options)
  return {
    folder,
    modules: [...script, ...lazy].map(({ fileName }) => fileName),
    gzipBytes: script.reduce((sum, chunk) => sum + gzippedBytes(chunk, folder), 0),
  }
}
