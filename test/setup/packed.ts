import { execFile } from 'node:child_process'
import { existsSync, globSync, statSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { TestProject } from 'vitest/node'

declare module 'vitest' {
  export interface ProvidedContext {
    /** The package as it would be published: a file that npm installs. */
    packed: string
  }
}

/** What lib/ is built of; a folder is as new as its newest name. */
const SOURCES = ['src', 'src/**', 'package*.json', 'tsconfig*.json', 'tsdown.config.ts', 'tools/bundled-licenses.ts']

export default async function packed({ provide }: TestProject): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-packed-'))
  // `npm ci` has built it already.
  const build = isBuilt() ? ['--ignore-scripts'] : []
  const args = ['pack', '--pack-destination', folder, '--loglevel=error', ...build]
  const { stdout } = await promisify(execFile)('npm', args)
  provide('packed', join(folder, stdout.trim().split('\n').at(-1) ?? ''))
  return () => rm(folder, { recursive: true })
}

function isBuilt(): boolean {
  // The last that a build writes.
  if (!existsSync('lib/command/cli.js')) return false
  return Math.max(...changesMs(SOURCES)) < Math.min(...changesMs('lib/**/*.*'))
}

function changesMs(patterns: string | string[]): number[] {
  return globSync(patterns).map((path) => statSync(path).mtimeMs)
}
