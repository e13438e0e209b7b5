/** Packs both packages once for the tests that install them. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { writePackages } from '../../tools/pack.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    /** The library as it would be published: a file that npm installs. */
    packed: string
    /** So the command. */
    packedCommand: string
  }
}

export default async function packed({ provide }: TestProject): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-packed-'))
  const [library, command] = await writePackages(folder)
  provide('packed', library?.path ?? '')
  provide('packedCommand', command?.path ?? '')
  return () => rm(folder, { recursive: true })
}
