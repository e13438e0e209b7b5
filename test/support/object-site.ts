import { join } from 'node:path'
import { convertV4MiniflareOptions, Miniflare } from 'miniflare'
import type {
  CommitOrAbort,
  ObjectNamespace,
  ObjectVote,
  PreparedCharge,
} from '../../src/core/store/durable-object/objects.ts'
import { keepWorkerLog } from '../setup/secret-watch.ts'
import { type Bundle, miniflareModules } from './build-bundle.ts'
import { startParts } from './parts.ts'
import { answerArrival, PATIENT, type SiteOptions } from './site.ts'
import { startUpstream } from './upstream.ts'

/** A call that an object has carried out, in the order in which all of them did. */
export type Recorded = { readonly key: string } & (
  | { readonly call: readonly ['reserve', PreparedCharge]; readonly answer: ObjectVote }
  | { readonly call: readonly ['close', CommitOrAbort]; readonly answer: boolean }
  | { readonly call: readonly ['inquire' | 'correct', unknown]; readonly answer: unknown }
)

export interface ObjectSiteOptions extends Omit<SiteOptions, 'variables'> {
  /** Of all gateways, or a list with those of each. */
  readonly variables: SiteOptions['variables'] | readonly SiteOptions['variables'][]
  /** What each gateway runs; default: what the objects run. */
  readonly bundles?: readonly Bundle[]
  /** Whether `record()` answers what the objects do. */
  readonly records?: boolean
}

export interface ObjectSite {
  /** Of the gateways. */
  readonly urls: readonly URL[]
  /** Lines of the gateways' log so far. */
  readonly log: readonly string[]
  /** The objects, as the gateways are bound to them. */
  readonly namespace: ObjectNamespace
  /** Of all objects that were ever called. */
  names(): Promise<readonly string[]>
  /** What the objects did since the last time, if that is recorded. */
  record(): Promise<readonly Recorded[]>
  /** No object answers while this runs. */
  withoutStore(work: () => Promise<void>): Promise<void>
  /** What objects are sent while this runs they do after it; only if what they do is recorded. */
  withBusyObjects(work: () => Promise<void>): Promise<void>
  /** Ends every object at once, with whatever it is doing, as a crash of its machine would. @returns how many */
  abort(): Promise<number>
  stop(): Promise<void>
}

/** The objects of the bundle, which report what they did, and end if they must. */
const HOST = `
import { LimitObject as Base } from './worker.js'
const keys = new Set()
let record = []
let isUnreachable = false
let isBusy = false
export class LimitObject extends Base {
  constructor(state, env) {
    super(state, env)
    this.state = state
    this.env = env
    keys.add(state.id.name)
  }
  async fetch(request) {
    if (new URL(request.url).pathname === '/abort') this.state.abort('aborted by the test')
    if (isUnreachable) return new Response(null, { status: 503 })
    if (!this.env.RECORDS) return super.fetch(request)
    while (isBusy) await scheduler.wait(5)
    const call = await request.clone().json()
    const response = await super.fetch(request)
    record.push({ key: this.state.id.name, call, answer: await response.clone().json() })
    return response
  }
}
export default {
  async fetch(request, { LIMITS }) {
    const find = (name) => LIMITS.get(LIMITS.idFromName(name))
    const { pathname, searchParams } = new URL(request.url)
    switch (pathname) {
      case '/record': {
        const recorded = record
        record = []
        return Response.json(recorded)
      }
      case '/abort':
        await Promise.all([...keys].map((key) => find(key).fetch('https://object/abort').catch(() => {})))
        return Response.json(keys.size)
      case '/call':
        return find(searchParams.get('name')).fetch(request)
      case '/names':
        return Response.json([...keys])
      default:
        isUnreachable = pathname === '/unreachable'
        isBusy = pathname === '/busy'
        return Response.json(null)
    }
  },
}`

/**
 * Runs several gateways of the production bundle before an API, each a Worker of its own as at a point of presence, which
 * share one set of Durable Objects.
 */
export function startObjectSite(options: ObjectSiteOptions): Promise<ObjectSite> {
  return startParts(async (add) => {
    const upstream = await add(startUpstream(options.api ?? answerArrival))
    // A copy: both are stopped by another function of the same name.
    return { ...(await add(startWorkers(options, upstream.url))) }
  })
}

async function startWorkers(
  { bundle, bundles = [], variables, points, records = false }: ObjectSiteOptions,
  upstreamUrl: string,
): Promise<ObjectSite> {
  const log: string[] = []
  const toWorker = ({ folder, compatibilityDate, compatibilityFlags }: Bundle) => {
    return { modulesRoot: folder, compatibilityDate, compatibilityFlags: [...compatibilityFlags] }
  }
  const names = Array.from({ length: points }, (_, index) => `gateway-${index}`)
  const ofHost = { className: 'LimitObject', scriptName: 'objects' }
  const findBindings = (index: number) => (Array.isArray(variables) ? variables[index] : variables)
  const socket = { unsafeDirectSockets: [{ host: '127.0.0.1', port: 0 }] }
  const options = convertV4MiniflareOptions({
    host: '127.0.0.1',
    handleStructuredLogs({ message }) {
      log.push(message)
      keepWorkerLog(message)
    },
    workers: [
      ...names.map((name, index) => ({
        ...toWorker(bundles[index] ?? bundle),
        ...socket,
        name,
        modules: miniflareModules(bundles[index] ?? bundle),
        bindings: { UPSTREAM_URL: upstreamUrl, ...PATIENT, ...findBindings(index) } as Record<string, never>,
        durableObjects: { LIMITS: ofHost },
        stripCfConnectingIp: false,
      })),
      {
        ...toWorker(bundle),
        ...socket,
        name: 'objects',
        modules: [
          { type: 'ESModule', path: join(bundle.folder, 'host.js'), contents: HOST },
          ...miniflareModules(bundle),
        ],
        bindings: { RECORDS: records },
        durableObjects: { LIMITS: { className: 'LimitObject', useSQLite: true } },
      },
    ],
  })
  const miniflare = new Miniflare(options)
  await miniflare.ready
  const urls = await Promise.all(names.map((name) => miniflare.unsafeGetDirectURL(name)))
  const host = await miniflare.unsafeGetDirectURL('objects')
  const call = async (path: string) => (await fetch(new URL(path, host))).json()
  return {
    urls,
    log,
    namespace: {
      idFromName: (name) => name,
      get: (name) => ({
        fetch: (_, init) => fetch(new URL(`/call?name=${encodeURIComponent(`${name}`)}`, host), init),
      }),
    },
    names: async () => (await call('/names')) as readonly string[],
    async withoutStore(work) {
      await call('/unreachable')
      await work()
      await call('/back')
    },
    async withBusyObjects(work) {
      await call('/busy')
      await work()
      await call('/back')
    },
    record: async () => (await call('/record')) as readonly Recorded[],
    abort: async () => (await call('/abort')) as number,
    stop: () => miniflare.dispose(),
  }
}
