import { join } from 'node:path'
import { installExact } from '../../../support/install-exact.ts'

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
export const installRuntimes = () => installExact(FOLDER)
