import { join } from 'node:path'
import { convertV4MiniflareOptions, Miniflare } from 'miniflare'
import type { Closing, ObjectVote, Reservation } from '../../src/store/durable-object/messages.ts'
import { keepWorkerLog } from '../setup/secret-watch.ts'
import { type Bundle, miniflareModules } from './build-bundle.ts'

/** A call that an object has carried out, in the order in which all of them did. */
export type Recorded = { readonly key: string } & (
  | { readonly call: readonly ['reserve', Reservation]; readonly answer: ObjectVote }
  | { readonly call: readonly ['close', Closing]; readonly answer: boolean }
  | { readonly call: readonly ['inquire' | 'correct', unknown]; readonly answer: unknown }
)

export interface ObjectSite {
  /** Of the gateways. */
  readonly urls: readonly URL[]
  /** What the objects did since the last time. */
  record(): Promise<readonly Recorded[]>
  /** Ends every object at once, with whatever it is doing, as a crash of its machine would. @returns how many */
  abort(): Promise<number>
  stop(): Promise<void>
}

/** The objects of the bundle, which tell what they did, and can be told to end. */
const HOST = `
import { LimitObject as Base } from './worker.js'
const keys = new Set()
let record = []
export class LimitObject extends Base {
  constructor(state, env) {
    super(state, env)
    this.state = state
    keys.add(state.id.name)
  }
  async fetch(request) {
    if (new URL(request.url).pathname === '/abort') this.state.abort('aborted by the test')
    const call = await request.clone().json()
    const response = await super.fetch(request)
    record.push({ key: this.state.id.name, call, answer: await response.clone().json() })
    return response
  }
}
export default {
  async fetch(request, { LIMITS }) {
    if (new URL(request.url).pathname === '/record') {
      const told = record
      record = []
      return Response.json(told)
    }
    const abort = (key) => LIMITS.get(LIMITS.idFromName(key)).fetch('https://object/abort').catch(() => {})
    await Promise.all([...keys].map(abort))
    return Response.json(keys.size)
  },
}`

/**
 * Runs several gateways of the production bundle, each a Worker of its own as at a point of presence, which share one set
 * of Durable Objects.
 * @param bindings variables, tables among them as objects
 */
export async function startObjectSite(
  bundle: Bundle,
  bindings: Readonly<Record<string, unknown>>,
  points: number,
): Promise<ObjectSite> {
  const { folder, compatibilityDate, compatibilityFlags } = bundle
  const modules = miniflareModules(bundle)
  const worker = { modulesRoot: folder, compatibilityDate, compatibilityFlags: [...compatibilityFlags] }
  const names = Array.from({ length: points }, (_, index) => `gateway-${index}`)
  const ofHost = { className: 'LimitObject', scriptName: 'objects' }
  const socket = { unsafeDirectSockets: [{ host: '127.0.0.1', port: 0 }] }
  const options = convertV4MiniflareOptions({
    host: '127.0.0.1',
    handleStructuredLogs: ({ message }) => keepWorkerLog(message),
    workers: [
      ...names.map((name) => ({
        ...worker,
        ...socket,
        name,
        modules,
        bindings: bindings as Record<string, never>,
        durableObjects: { LIMITS: ofHost },
        stripCfConnectingIp: false,
      })),
      {
        ...worker,
        ...socket,
        name: 'objects',
        modules: [{ type: 'ESModule', path: join(folder, 'host.js'), contents: HOST }, ...modules],
        durableObjects: { LIMITS: { className: 'LimitObject', useSQLite: true } },
      },
    ],
  })
  const miniflare = new Miniflare(options)
  await miniflare.ready
  const urls = await Promise.all(names.map((name) => miniflare.unsafeGetDirectURL(name)))
  const host = await miniflare.unsafeGetDirectURL('objects')
  const ask = async (path: string) => (await fetch(new URL(path, host))).json()
  return {
    urls,
    record: async () => (await ask('/record')) as readonly Recorded[],
    abort: async () => (await ask('/abort')) as number,
    stop: () => miniflare.dispose(),
  }
}
