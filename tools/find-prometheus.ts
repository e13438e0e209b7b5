import { delimiter, join } from 'node:path'
import { defaultPath, findExecutable } from './executables.ts'
import { cacheOf, unpackPackage } from './unpack-package.ts'

export interface Prometheus {
  readonly server: string
  /** Checks configurations and alerts. */
  readonly promtool: string
}

const INSTALL =
  'Install Prometheus 2.42 or newer: "apt-get install prometheus", "brew install prometheus", or see https://prometheus.io/download/'

/**
 * A Prometheus that is installed or was unpacked before, else one that is unpacked now from Debian's package.
 * @throws Error whose one line says what to install
 */
export async function findPrometheus(
  path: string = defaultPath(),
  cache: string = cacheOf('prometheus'),
): Promise<Prometheus> {
  const unpacked = join(cache, 'usr/bin')
  const everywhere = [path, unpacked].join(delimiter)
  const found = await find(everywhere)
  if (found) return found
  await unpackPackage('prometheus', cache, path).catch(({ message }: Error) => {
    throw new Error(`no Prometheus is installed (${message}). ${INSTALL}`)
  })
  const now = await find(everywhere)
  if (!now) throw new Error(`no Prometheus is installed (Debian's package holds none). ${INSTALL}`)
  return now
}

async function find(path: string): Promise<Prometheus | undefined> {
  const [server, promtool] = await Promise.all([findExecutable('prometheus', path), findExecutable('promtool', path)])
  return server && promtool ? { server, promtool } : undefined
}
