import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { unstable_readConfig as readConfig } from 'wrangler'

/** What `wrangler deploy` would upload. */
export interface Bundle {
  /** Its entry is worker.js. */
  readonly folder: string
  readonly compatibilityDate: string
  readonly compatibilityFlags: readonly string[]
}

/** Builds the production bundle into a folder of its own, which is the caller's to remove. */
export async function buildBundle(): Promise<Bundle> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-bundle-'))
  const env = { ...process.env, WRANGLER_SEND_METRICS: 'false', WRANGLER_LOG: 'error' }
  await promisify(execFile)('wrangler', ['deploy', '--dry-run', '--outdir', folder], { env })
  const { compatibility_date = '', compatibility_flags } = readConfig(
    { config: 'wrangler.toml' },
    { hideWarnings: true },
  )
  return { folder, compatibilityDate: compatibility_date, compatibilityFlags: compatibility_flags }
}

export function removeBundle({ folder }: Bundle): Promise<void> {
  return rm(folder, { recursive: true })
}
