/** Programs out of Debian's packages that are not installed: that would take root, and start their services. */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { findExecutable, readLastLine, readPath } from './programs.ts'

const CACHE = join(import.meta.dirname, '../node_modules/.cache')

export interface PackagedPrograms {
  /** What people call them. */
  readonly title: string
  /** Name of Debian's package. */
  readonly packageName: string
  readonly programs: readonly string[]
  /** What those do who install them themselves. */
  readonly advice: string
}

/**
 * Programs that are installed or were unpacked before, else unpacked now.
 * @returns the path of each program
 * @throws Error whose one line says what to install
 */
export async function findOrUnpack(
  { title, packageName, programs, advice }: PackagedPrograms,
  path: string = readPath(),
  cache: string = join(CACHE, packageName),
): Promise<readonly string[]> {
  const everywhere = [path, join(cache, 'usr/sbin'), join(cache, 'usr/bin')].join(delimiter)
  const find = async () => {
    const found = await Promise.all(programs.map((program) => findExecutable(program, everywhere)))
    return found.every((file) => file !== undefined) ? found : undefined
  }
  const found = await find()
  if (found) return found
  const failed = await unpack(packageName, cache, path).catch(({ message }: Error) => message)
  const unpacked = await find()
  if (!unpacked) throw new Error(`no ${title} is installed (${failed ?? 'the package holds none'}). ${advice}`)
  return unpacked
}

/** @param folder where to; another process may be unpacking it as well */
async function unpack(name: string, folder: string, path: string): Promise<undefined> {
  if (!(await findExecutable('apt-get', path))) throw new Error('there is no apt-get')
  await mkdir(dirname(folder), { recursive: true })
  const own = await mkdtemp(`${folder}-`)
  const command = `{ apt-get download ${name} || { apt-get update && apt-get download ${name}; }; } && dpkg-deb --extract ${name}_*.deb .`
  try {
    await promisify(execFile)('sh', ['-c', command], { cwd: own, env: { ...process.env, PATH: path } })
    // It takes place at once, and it is no harm if another process was faster.
    await rename(own, folder).catch(() => {})
  } catch (error) {
    throw new Error(`apt-get failed: ${readLastLine(error)}`)
  } finally {
    await rm(own, { recursive: true, force: true })
  }
}
