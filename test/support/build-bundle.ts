import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** What `wrangler deploy` would upload. */
export interface Bundle {
  readonly folder: string
  /** Names of its files, the entry first. */
  readonly modules: readonly string[]
  /** Bytes of those that every isolate loads, gzipped. */
  readonly scriptBytes: number
  /** Bytes of all modules, gzipped. */
  readonly bytes: number
  readonly compatibilityDate: string
  readonly compatibilityFlags: readonly string[]
}

export interface BundleOptions {
  /** Of a Worker, relative to the root; default: the gateway. */
  readonly source?: string
  /** Below which it gets a folder; default: that of temporary files. */
  readonly into?: string
  readonly minify?: boolean
}

/** Builds a bundle into a folder of its own, which is the caller's to remove. */
export async function buildBundle(options: BundleOptions = {}): Promise<Bundle> {
  const { source = 'src/worker.ts', into = tmpdir(), minify = true } = options
  // Most tests are given what was built once for all of them: they load neither the bundler nor Wrangler.
  const { buildWorker, countGzippedBytes } = await import('../../tools/build-worker.ts')
  const { unstable_readConfig: readConfig } = await import('wrangler')
  const folder = await mkdtemp(join(into, 'sluice-bundle-'))
  const { script, lazy } = await buildWorker(source, folder, { minify })
  const { compatibility_date = '', compatibility_flags } = readConfig(
    { config: 'wrangler.toml' },
    { hideWarnings: true },
  )
  return {
    folder,
    modules: [...script, ...lazy].map(({ fileName }) => fileName),
    scriptBytes: countGzippedBytes(script, folder),
    bytes: countGzippedBytes([...script, ...lazy], folder),
    compatibilityDate: compatibility_date,
    compatibilityFlags: compatibility_flags,
  }
}

/** The modules of a bundle, as Miniflare is told them. */
export function miniflareModules({ folder, modules }: Bundle) {
  return modules.map((name) => ({ type: 'ESModule' as const, path: join(folder, name) }))
}

export function removeBundle({ folder }: Bundle): Promise<void> {
  return rm(folder, { recursive: true })
}

/** Builds the bundle for this work alone. */
export async function withBundle<Found>(work: (bundle: Bundle) => Promise<Found>): Promise<Found> {
  const bundle = await buildBundle()
  try {
    return await work(bundle)
  } finally {
    await removeBundle(bundle)
  }
}
