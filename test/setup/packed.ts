import { execFile } from 'node:child_process'
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

export default async function packed({ provide }: TestProject): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-packed-'))
  const { stdout } = await promisify(execFile)('npm', ['pack', '--pack-destination', folder, '--loglevel=error'])
  provide('packed', join(folder, stdout.trim().split('\n').at(-1) ?? ''))
  return () => rm(folder, { recursive: true })
}
