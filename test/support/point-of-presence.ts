import { convertV4MiniflareOptions, Miniflare } from 'miniflare'
import { keepWorkerLog } from '../setup/secret-watch.ts'
import { type Bundle, miniflareModules } from './build-bundle.ts'

export interface PointOfPresence {
  readonly url: URL
  stop(): Promise<void>
}

/**
 * Runs the production bundle in a workerd of its own, as one of Cloudflare's points of presence does.
 * @param bindings variables, tables among them as objects
 */
export async function startPointOfPresence(
  bundle: Bundle,
  bindings: Readonly<Record<string, unknown>>,
): Promise<PointOfPresence> {
  const { folder, compatibilityDate, compatibilityFlags } = bundle
  const options = convertV4MiniflareOptions({
    modulesRoot: folder,
    modules: miniflareModules(bundle),
    compatibilityDate,
    compatibilityFlags: [...compatibilityFlags],
    bindings: bindings as Record<string, never>,
    handleStructuredLogs: ({ message }) => keepWorkerLog(message),
    host: '127.0.0.1',
  })
  const miniflare = new Miniflare(options)
  return { url: await miniflare.ready, stop: () => miniflare.dispose() }
}
