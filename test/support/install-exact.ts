/** Packages of a folder of tests that has a package.json of its own, with exact versions and no lock. */
import { execFileSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Installs what a folder's package.json names, unless that has been done since it was changed. Without a lock: npm leaves
 * out of one what packages have for other platforms, and then refuses it.
 * @throws Error if the registry cannot be reached: without them nothing would be tested
 */
export function installExact(folder: string, options: readonly string[] = []): void {
  const [installedMs, namedMs] = ['node_modules/.package-lock.json', 'package.json'].map((file) => {
    return statSync(join(folder, file), { throwIfNoEntry: false })?.mtimeMs ?? 0
  }) as [number, number]
  if (installedMs >= namedMs) return
  const args = ['install', '--prefix', folder, '--no-package-lock', '--prefer-offline', '--no-audit', '--no-fund']
  execFileSync('npm', [...args, '--loglevel=error', ...options], { stdio: ['ignore', process.stderr, process.stderr] })
}
