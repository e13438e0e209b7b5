import { delimiter, join } from 'node:path'
import { defaultPath, findExecutable } from './executables.ts'
import { cacheOf, unpackPackage } from './unpack-package.ts'

/** Proxies that ask before they pass a request on, by the names of their programs and of Debian's packages. */
export const PROXIES = ['nginx', 'caddy'] as const
export type ProxyName = (typeof PROXIES)[number]

/**
 * A proxy that is installed or was unpacked before, else one that is unpacked now from Debian's package.
 * @throws Error whose one line says what to install
 */
export async function findProxy(name: ProxyName, path: string = defaultPath(), cache = cacheOf(name)): Promise<string> {
  const everywhere = [path, join(cache, 'usr/sbin'), join(cache, 'usr/bin')].join(delimiter)
  const found = await findExecutable(name, everywhere)
  if (found) return found
  const failed = await unpackPackage(name, cache, path).catch(({ message }: Error) => message)
  const now = await findExecutable(name, everywhere)
  if (now) return now
  throw new Error(
    `no ${name} is installed (${failed ?? 'the package holds none'}). Install it: "apt-get install ${name}", "brew install ${name}"`,
  )
}
