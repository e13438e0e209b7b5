import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { findExecutable, lastLine } from './executables.ts'

const run = promisify(execFile)

const CACHE = join(import.meta.dirname, '../node_modules/.cache')

/** Where a package is unpacked to. */
export function cacheOf(name: string): string {
  return join(CACHE, name)
}

/**
 * Unpacks a package of Debian's. It is not installed: that would take root, and start its service now and after each boot.
 * @param folder where to; another process may be unpacking it as well
 * @throws Error that says why it cannot be had
 */
export async function unpackPackage(name: string, folder: string, path: string): Promise<void> {
  if (!(await findExecutable('apt-get', path))) throw new Error('there is no apt-get')
  await mkdir(dirname(folder), { recursive: true })
  const own = await mkdtemp(`${folder}-`)
  const command = `{ apt-get download ${name} || { apt-get update && apt-get download ${name}; }; } && dpkg-deb --extract ${name}_*.deb .`
  try {
    await run('sh', ['-c', command], { cwd: own, env: { ...process.env, PATH: path } })
    // At once, and it is no harm if another process was faster.
    await rename(own, folder).catch(() => {})
  } catch (error) {
    throw new Error(`apt-get failed: ${lastLine(error)}`)
  } finally {
    await rm(own, { recursive: true, force: true })
  }
}
