/** Proxies that ask before they pass a request on, by the names of their programs and of Debian's packages. */
import { delimiter } from 'node:path'
import { findExecutable, readPath } from './programs.ts'
import { findOrUnpack } from './unpack-package.ts'

export const PROXIES = ['nginx', 'caddy', 'haproxy'] as const
export type ProxyName = (typeof PROXIES)[number]

/** @throws Error whose one line says what to install */
export async function findProxy(name: ProxyName, path: string = readPath(), cache?: string): Promise<string> {
  const advice = `Install it: "apt-get install ${name}", "brew install ${name}"`
  if (name === 'haproxy') {
    // Its package needs libraries of others, so it does not run if it is only unpacked.
    const installed = await findExecutable(name, [path, '/usr/sbin'].join(delimiter))
    if (!installed) throw new Error(`no ${name} is installed. ${advice}`)
    return installed
  }
  const [program = ''] = await findOrUnpack({ title: name, packageName: name, programs: [name], advice }, path, cache)
  return program
}
