import type { ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { keepWorkerLog } from '../setup/secret-watch.ts'
import type { Bundle } from './build-bundle.ts'
import { startProgram } from './program.ts'

const fromMiniflare = createRequire(import.meta.resolve('miniflare'))
export const { default: WORKERD } = fromMiniflare('workerd') as { default: string }

/** workerd says nothing of a promise that nobody handles. @param worker module of the bundle */
const formatEntry = (worker: string) => `
import worker from './${worker}'
addEventListener('unhandledrejection', ({ reason }) => {
  console.error(JSON.stringify({ event: 'unhandled_rejection', error: String(reason?.stack ?? reason) }))
})
export * from './${worker}'
export default worker`

export interface DirectGatewayOptions {
  readonly bundle: Bundle
  /** Variables, tables among them as objects. */
  readonly bindings: Readonly<Record<string, unknown>>
  /** `host:port` of what the service binding `UPSTREAM` leads to, if there is to be one. */
  readonly upstreamService?: string
  /** Where the Durable Objects that it is bound to keep their rows, as long as it lives; left out, it has none. */
  readonly objects?: 'memory' | 'disk'
  /** Of V8, e.g. `--max-heap-size=64`. */
  readonly v8Flags?: readonly string[]
  /** Started in place of workerd, with its arguments. */
  readonly program?: string
  /** More options of `workerd serve`. */
  readonly args?: readonly string[]
}

export interface DirectGateway {
  readonly url: URL
  readonly pid: number
  /** Lines of the Worker's log so far. */
  readonly log: readonly string[]
  stop(): Promise<void>
}

/**
 * Runs a bundle in a workerd of its own, as one of Cloudflare's points of presence does. Miniflare would do
 * so at five times the processor time, with Workers of its own before the gateway: they parse each URL anew and set
 * `Accept-Encoding`, `CF-Connecting-IP` and more. Here the gateway sees what was sent, and what it sends leaves as it is.
 */
export async function startDirectGateway(options: DirectGatewayOptions): Promise<DirectGateway> {
  const config = join(options.bundle.folder, `${randomUUID()}.capnp`)
  const disk = join(options.bundle.folder, randomUUID())
  if (options.objects === 'disk') await mkdir(disk)
  await writeFile(config, formatConfig(disk, options))
  const { program = WORKERD, args = [] } = options
  const { child, pid, end } = startProgram<ChildProcess>(program, ['serve', config, '--control-fd=3', ...args], {
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    env: { ...process.env, TZ: 'UTC' },
    folder: config,
  })
  const log: string[] = []
  for (const output of [child.stdout, child.stderr] as readonly Readable[]) {
    createInterface(output).on('line', (line) => {
      const message = readMessage(line)
      log.push(message)
      keepWorkerLog(message)
    })
  }
  const stop = async () => void (await end())
  const port = await readPort(child.stdio[3] as Readable)
  if (port === undefined) {
    await stop()
    throw new Error(`workerd did not start: ${log.join('\n')}`)
  }
  return { url: new URL(`http://127.0.0.1:${port}/`), pid, log, stop }
}

function formatConfig(
  disk: string,
  { bundle, bindings, upstreamService, objects, v8Flags = [] }: DirectGatewayOptions,
): string {
  const modules = bundle.modules.map((name) => `(name = ${quote(name)}, esModule = embed ${quote(name)})`)
  const bound = Object.entries(bindings).map(([name, value]) =>
    typeof value === 'string'
      ? `(name = ${quote(name)}, text = ${quote(value)})`
      : `(name = ${quote(name)}, json = ${quote(JSON.stringify(value))})`,
  )
  const services = [
    `(name = "gateway", worker = .gateway)`,
    `(name = "internet", network = (allow = ["public", "private"], tlsOptions = (trustBrowserCas = true)))`,
  ]
  if (upstreamService !== undefined) {
    services.push(`(name = "upstream", external = (address = ${quote(upstreamService)}, http = ()))`)
    bound.push('(name = "UPSTREAM", service = "upstream")')
  }
  // In memory, objects have no alarms.
  if (objects === 'disk') services.push(`(name = "disk", disk = (path = ${quote(disk)}, writable = true))`)
  if (objects) bound.push('(name = "LIMITS", durableObjectNamespace = "LimitObject")')
  const storage = { memory: 'inMemory = void', disk: 'localDisk = "disk"', none: 'none = void' }[objects ?? 'none']
  const namespaces = objects ? '(className = "LimitObject", uniqueKey = "limits", enableSql = true)' : ''
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [${services.join(', ')}],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "gateway")],
  logging = (structuredLogging = true),
  v8Flags = [${v8Flags.map(quote).join(', ')}],
);
const gateway :Workerd.Worker = (
  modules = [(name = "entry.js", esModule = ${quote(formatEntry(bundle.modules[0] as string))}), ${modules.join(', ')}],
  compatibilityDate = ${quote(bundle.compatibilityDate)},
  compatibilityFlags = [${bundle.compatibilityFlags.map(quote).join(', ')}],
  bindings = [${bound.join(', ')}],
  durableObjectNamespaces = [${namespaces}],
  durableObjectStorage = (${storage}),
);`
}

/** A string of Cap'n Proto. It knows `\\x1b`, and not `\\u001b`. */
function quote(text: string): string {
  return JSON.stringify(text).replaceAll(/\\u00(..)/g, '\\x$1')
}

/** workerd says where it listens; undefined if it ends before. */
async function readPort(control: Readable): Promise<number | undefined> {
  for await (const line of createInterface(control)) {
    const { event, port } = JSON.parse(line) as { event: string; port?: number }
    if (event === 'listen') return port
  }
  return undefined
}

/** A line of the Worker's comes as JSON, one of workerd's own, e.g. why it ends, as it is. */
function readMessage(line: string): string {
  try {
    return (JSON.parse(line) as { message: string }).message
  } catch {
    return line
  }
}
