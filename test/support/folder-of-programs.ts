import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/** A folder for one test that serves as PATH, with these shell scripts in it by name, and what they need themselves. */
export async function folderOfPrograms(scripts: Readonly<Record<string, string>>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-path-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  for (const [name, script] of Object.entries(scripts)) {
    await writeFile(join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  }
  await symlink('/bin/sh', join(folder, 'sh'))
  await symlink('/usr/bin/env', join(folder, 'env'))
  return folder
}
