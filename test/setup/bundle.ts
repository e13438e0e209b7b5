import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { TestProject } from 'vitest/node'

declare module 'vitest' {
  export interface ProvidedContext {
    /** Folder of the production bundle, whose entry is worker.js. */
    bundle: string
  }
}

/** Builds what `wrangler deploy` would upload. */
export default async function bundle({ provide }: TestProject): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bundle-'))
  const env = { ...process.env, WRANGLER_SEND_METRICS: 'false', WRANGLER_LOG: 'error' }
  await promisify(execFile)('wrangler', ['deploy', '--dry-run', '--outdir', folder], { env })
  provide('bundle', folder)
  return () => rm(folder, { recursive: true })
}
