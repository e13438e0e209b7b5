import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

const FOLDER = import.meta.dirname
const installed = (path: string) => join(FOLDER, 'node_modules', path)

/** How a runtime is told to run a file. */
export const RUNTIMES: Readonly<Record<string, readonly string[]>> = {
  'Node 20': [installed('node20/bin/node')],
  'Node 22': [installed('node22/bin/node')],
  'Node 26': [installed('node26/bin/node')],
  Node: [process.execPath],
  Bun: [installed('.bin/bun'), 'run'],
  Deno: [installed('.bin/deno'), 'run', '--allow-all', '--no-lock', '--node-modules-dir=manual'],
}

/** Installs those that are not the one of the repository. */
export function installRuntimes(): void {
  // Without a lock: what Deno has for other platforms, npm leaves out of it, and then refuses it.
  const args = ['install', '--prefix', FOLDER, '--no-package-lock', '--prefer-offline', '--no-audit', '--no-fund']
  execFileSync('npm', args, { stdio: 'inherit' })
}
