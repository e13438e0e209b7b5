import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { convertV4MiniflareOptions, Miniflare } from 'miniflare'

export interface PointOfPresence {
  readonly url: URL
  stop(): Promise<void>
}

/**
 * Runs the production bundle in a workerd of its own, as one of Cloudflare's points of presence does.
 * @param bundle folder that `wrangler deploy --outdir` has filled
 * @param bindings variables, tables among them as objects
 */
export async function startPointOfPresence(
  bundle: string,
  bindings: Readonly<Record<string, unknown>>,
): Promise<PointOfPresence> {
  const scripts = (await readdir(bundle)).filter((name) => name.endsWith('.lua'))
  const options = convertV4MiniflareOptions({
    modulesRoot: bundle,
    modules: [
      { type: 'ESModule', path: join(bundle, 'worker.js') },
      ...scripts.map((name) => ({ type: 'Text' as const, path: join(bundle, name) })),
    ],
    compatibilityDate: '2026-11-01',
    bindings: bindings as Record<string, never>,
    host: '127.0.0.1',
  })
  const miniflare = new Miniflare(options)
  return { url: await miniflare.ready, stop: () => miniflare.dispose() }
}
