/** Proxies that ask before they pass a request on, by the names of their programs and of Debian's packages. */
import { findOrUnpack } from './unpack-package.ts'

export const PROXIES = ['nginx', 'caddy'] as const
export type ProxyName = (typeof PROXIES)[number]

/** @throws Error whose one line says what to install */
export async function findProxy(name: ProxyName, path?: string, cache?: string): Promise<string> {
  const advice = `Install it: "apt-get install ${name}", "brew install ${name}"`
  const [program = ''] = await findOrUnpack({ title: name, packageName: name, programs: [name], advice }, path, cache)
  return program
}
