import { execFile } from 'node:child_process'
import { glob } from 'node:fs/promises'
import { promisify } from 'node:util'

const INSTALLED = '/usr/lib/*/faketime/libfaketimeMT.so.1'
const APT_INSTALL = 'apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=60 libfaketime'

/**
 * Path of the library by which a process can be told another time; installed, if it is not there, by Debian's package
 * manager.
 * @throws Error whose one line says what to install.
 */
export async function findLibfaketime(): Promise<string> {
  const installed = await find()
  if (installed) return installed
  console.error('libfaketime is missing: installing it with apt-get …')
  const sudo = process.getuid?.() === 0 ? [] : ['sudo', '-n']
  const [file = '', ...args] = [...sudo, 'env', 'DEBIAN_FRONTEND=noninteractive', 'sh', '-c']
  const command = `${APT_INSTALL} || { apt-get update; ${APT_INSTALL}; }`
  const failed = await promisify(execFile)(file, [...args, command]).then(
    () => undefined,
    (error: Error) => error.message.trim().split('\n').at(-1),
  )
  const path = await find()
  if (!path) throw new Error(`libfaketime is missing (${failed}). Install Debian's package "libfaketime".`)
  return path
}

async function find(): Promise<string | undefined> {
  for await (const path of glob(INSTALLED)) return path
  return undefined
}

/**
 * Environment of a process whose clock is off by this much.
 * @param library as `findLibfaketime()` answers
 */
export function shiftedClock(library: string, offsetS: number): Record<string, string> {
  return {
    // jemalloc asks for the time while libfaketime is still asking for memory: let the C library's malloc serve both.
    LD_PRELOAD: `${library}:libc.so.6`,
    FAKETIME: `${offsetS >= 0 ? '+' : ''}${offsetS}s`,
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
  }
}
