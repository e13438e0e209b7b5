/** Packages of folders that have a package.json of their own. */
import { execFileSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Installs what a folder with a package.json of its own needs, unless it is installed as the lock says.
 * @param options more of `npm ci`
 * @throws Error if the registry cannot be reached
 */
export function installLocked(folder: string, options: readonly string[] = []): void {
  if (readTimeMs(join(folder, 'node_modules/.package-lock.json')) >= readTimeMs(join(folder, 'package-lock.json')))
    return
  console.error(`Installing what ${folder} needs …`)
  const args = ['ci', '--prefix', folder, '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error', ...options]
  // What npm prints is not a result of the command that needed this.
  execFileSync('npm', args, { stdio: ['ignore', process.stderr, process.stderr] })
}

function readTimeMs(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0
}
