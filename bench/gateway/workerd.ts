import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { unstable_readConfig as readConfig } from 'wrangler'
import { endTogether } from '../../tools/end-together.ts'
import type { Bundle } from './bundle.ts'

export const WORKERD = fileURLToPath(import.meta.resolve('../../node_modules/.bin/workerd'))
const START_TIMEOUT_MS = 120_000
/** Of the clock in which Linux tells processor time: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html */
const TICKS_PER_SECOND = 100

export interface Gateway {
  readonly url: string
  readonly pid: number
  /** Microseconds of processor time that it has taken so far; NaN where there is no /proc. */
  processorUs(): number
  stop(): Promise<void>
}

export interface GatewayOptions {
  /** Variables; tables as JSON. */
  readonly bindings: Readonly<Record<string, string>>
  /** Where the bundle's Durable Objects keep their databases; left out, it has no objects. */
  readonly objects?: 'memory' | 'disk'
  /** Started in place of workerd, with its arguments. */
  readonly program?: string
  /** More options of `workerd serve`. */
  readonly args?: readonly string[]
}

/**
 * Serves a bundle with `workerd serve`, on 127.0.0.1 with nothing in between. Ends with this process.
 * @throws Error with the last words of workerd if it does not start
 */
export async function startGateway(
  bundle: Pick<Bundle, 'folder' | 'modules'>,
  { bindings, objects, program = WORKERD, args = [] }: GatewayOptions,
): Promise<Gateway> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-workerd-'))
  const file = join(folder, 'config.capnp')
  await writeFile(file, await capnp(bundle, { bindings, ...(objects && { objects }) }, folder))
  const child = spawn(program, ['serve', '--control-fd=3', ...args, '-I', bundle.folder, file], {
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    detached: true,
  })
  let words = ''
  const collect = (chunk: Buffer) => {
    words = (words + chunk).slice(-2_000)
  }
  child.stdout?.on('data', collect)
  child.stderr?.on('data', collect)
  const exited = once(child, 'exit').then(() => rm(folder, { recursive: true, force: true }))
  const removeGuard = endTogether(child.pid as number, folder)
  const stop = async () => {
    child.kill('SIGKILL')
    await exited
    removeGuard()
  }
  const deadline = setTimeout(() => child.kill('SIGKILL'), START_TIMEOUT_MS)
  const port = await Promise.race([portOf(child.stdio[3] as Readable), exited])
  clearTimeout(deadline)
  if (port === undefined) {
    await stop()
    throw new Error(`workerd did not start: ${words.trim()}`)
  }
  const pid = child.pid as number
  return { url: `http://127.0.0.1:${port}`, pid, processorUs: () => processorUs(pid), stop }
}

/** What workerd says about its socket: `{"event":"listen","socket":"http","port":N}`. */
async function portOf(control: Readable): Promise<number> {
  let text = ''
  for await (const chunk of control) {
    text += chunk
    const port = /"event":"listen","socket":"http","port":(\d+)/.exec(text)?.[1]
    if (port) return Number(port)
  }
  // The end of the process follows.
  return new Promise(() => {})
}

function processorUs(pid: number): number {
  try {
    // After the name, which is in parentheses and may hold anything.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? []
    return ((Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND) * 1e6
  } catch {
    return Number.NaN
  }
}

/** @param folder in which objects keep their databases, if they keep them on disk */
async function capnp(
  { modules }: Pick<Bundle, 'modules'>,
  { bindings, objects }: Pick<GatewayOptions, 'bindings' | 'objects'>,
  folder: string,
): Promise<string> {
  const { compatibility_date, compatibility_flags } = readConfig(
    { config: fileURLToPath(import.meta.resolve('../../wrangler.toml')) },
    { hideWarnings: true },
  )
  const variables = Object.entries(bindings).map(
    ([name, value]) => `(name = "${name}", text = ${JSON.stringify(value)})`,
  )
  if (objects) variables.push('(name = "LIMITS", durableObjectNamespace = "LimitObject")')
  const storage = objects === 'disk' ? 'localDisk = "objects"' : 'inMemory = void'
  const durable = objects
    ? `durableObjectNamespaces = [(className = "LimitObject", uniqueKey = "limits", enableSql = true)],
  durableObjectStorage = (${storage}),`
    : ''
  const embedded = modules.map((name) => `(name = "${name}", esModule = embed "/${name}")`)
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .worker),
    (name = "internet", network = (allow = ["private", "public"])),
    (name = "objects", disk = (path = "${folder}", writable = true)),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);
const worker :Workerd.Worker = (
  modules = [${embedded.join(', ')}],
  compatibilityDate = "${compatibility_date}",
  compatibilityFlags = ${JSON.stringify(compatibility_flags)},
  bindings = [${variables.join(', ')}],
  ${durable}
);
`
}
