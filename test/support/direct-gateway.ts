import { join } from 'node:path'
import { convertV4MiniflareOptions, Miniflare } from 'miniflare'
import { keepWorkerLog } from '../setup/secret-watch.ts'
import { type Bundle, miniflareModules } from './build-bundle.ts'

export interface DirectGateway {
  readonly url: URL
  /** Lines of its log so far. */
  readonly log: readonly string[]
  stop(): Promise<void>
}

export interface DirectGatewayOptions {
  readonly bundle: Bundle
  /** Variables, tables among them as objects. */
  readonly bindings: Readonly<Record<string, unknown>>
  /** `host:port` of what the service binding `UPSTREAM` leads to, if there is to be one. */
  readonly upstreamService?: string
}

/** workerd says nothing of a promise that nobody handles. */
const ENTRY = `
import worker from './worker.js'
addEventListener('unhandledrejection', ({ reason }) => {
  console.error(JSON.stringify({ event: 'unhandled_rejection', error: String(reason?.stack ?? reason) }))
})
export default worker`

/**
 * Runs the production bundle on a socket of its own. A point of presence started by Miniflare parses each URL anew and
 * sets `Accept-Encoding`, `CF-Connecting-IP` and more before the Worker sees a request; here it sees what was sent, and
 * what it sends leaves as it is.
 */
export async function startDirectGateway({
  bundle,
  bindings,
  upstreamService,
}: DirectGatewayOptions): Promise<DirectGateway> {
  const { folder, compatibilityDate, compatibilityFlags } = bundle
  const log: string[] = []
  const options = convertV4MiniflareOptions({
    modulesRoot: folder,
    modules: [{ type: 'ESModule', path: join(folder, 'entry.js'), contents: ENTRY }, ...miniflareModules(bundle)],
    compatibilityDate,
    compatibilityFlags: [...compatibilityFlags],
    bindings: bindings as Record<string, never>,
    ...(upstreamService && { serviceBindings: { UPSTREAM: { external: { address: upstreamService, http: {} } } } }),
    unsafeDirectSockets: [{ host: '127.0.0.1', port: 0 }],
    stripCfConnectingIp: false,
    handleStructuredLogs({ message }) {
      log.push(message)
      keepWorkerLog(message)
    },
    host: '127.0.0.1',
  })
  const miniflare = new Miniflare(options)
  await miniflare.ready
  return { url: await miniflare.unsafeGetDirectURL(), log, stop: () => miniflare.dispose() }
}
