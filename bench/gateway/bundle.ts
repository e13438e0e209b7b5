import { execFile } from 'node:child_process'
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'

const ROOT = fileURLToPath(import.meta.resolve('../..'))

export interface Bundle {
  /** What Wrangler would upload. */
  readonly folder: string
  /** Its entry in `folder`. */
  readonly entry: string
  readonly gzipBytes: number
}

/**
 * Bundles a Worker as `wrangler deploy` would, each with Sluice's own wrangler.toml: the same flags, all minified.
 * @param source relative to the root, e.g. `src/worker.ts`
 * @param options more of `wrangler deploy`
 */
export async function bundle(source: string, into: string, options: readonly string[] = []): Promise<Bundle> {
  const folder = join(into, source.replaceAll(/\W/g, '-'))
  await mkdir(folder)
  const env = { ...process.env, WRANGLER_SEND_METRICS: 'false', WRANGLER_WRITE_LOGS: 'false' }
  const args = ['deploy', source, '--dry-run', '--outdir', folder, ...options]
  await promisify(execFile)(join(ROOT, 'node_modules/.bin/wrangler'), args, { cwd: ROOT, env })
  const entry = source.replace(/^.*\/(.*)\.ts$/, '$1.js')
  return { folder, entry, gzipBytes: gzipSync(await readFile(join(folder, entry))).length }
}
