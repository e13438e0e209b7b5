import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { defaultPath, findExecutable, lastLine } from './executables.ts'

const run = promisify(execFile)

export interface Prometheus {
  readonly server: string
  /** Checks configurations and alerts. */
  readonly promtool: string
}

/**
 * Debian's package brings a system service that would listen on port 9090 now and after each boot, so it is only
 * unpacked, for which nobody needs to be root.
 */
const UNPACK = `
  { apt-get download prometheus || { apt-get update && apt-get download prometheus; }; } &&
  dpkg-deb --extract prometheus_*.deb .`

const CACHE = join(import.meta.dirname, '../node_modules/.cache/prometheus')

const INSTALL =
  'Install Prometheus 2.42 or newer: "apt-get install prometheus", "brew install prometheus", or see https://prometheus.io/download/'

/**
 * A Prometheus that is installed or was unpacked before, else one that is unpacked now from Debian's package.
 * @throws Error whose one line says what to install
 */
export async function findPrometheus(path: string = defaultPath(), cache: string = CACHE): Promise<Prometheus> {
  const unpacked = join(cache, 'usr/bin')
  const everywhere = [path, unpacked].join(delimiter)
  const found = await find(everywhere)
  if (found) return found
  if (!(await findExecutable('apt-get', path))) throw new Error(`no Prometheus is installed. ${INSTALL}`)
  await mkdir(dirname(cache), { recursive: true })
  const folder = await mkdtemp(`${cache}-`)
  try {
    await run('sh', ['-c', UNPACK], { cwd: folder, env: { ...process.env, PATH: path } })
    // At once, and it is no harm if another process was faster.
    await rename(folder, cache).catch(() => {})
  } catch (error) {
    throw new Error(`no Prometheus is installed (apt-get failed: ${lastLine(error)}). ${INSTALL}`)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  const now = await find(everywhere)
  if (!now) throw new Error(`no Prometheus is installed (Debian's package holds none). ${INSTALL}`)
  return now
}

async function find(path: string): Promise<Prometheus | undefined> {
  const [server, promtool] = await Promise.all([findExecutable('prometheus', path), findExecutable('promtool', path)])
  return server && promtool ? { server, promtool } : undefined
}
