import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { findChromium } from '../../tools/find-chromium.ts'

/** A directory that serves as PATH, with the given shell scripts in it. */
async function directoryOf(scripts: Record<string, string>): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'sluice-path-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  for (const [name, script] of Object.entries(scripts)) {
    await writeFile(join(directory, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  }
  await symlink('/bin/sh', join(directory, 'sh'))
  return directory
}

const log = () => {}

test('findChromium() takes the one that is there, under any of its names', async () => {
  for (const name of ['chromium', 'chromium-browser', 'google-chrome']) {
    const path = await directoryOf({ [name]: '' })
    await expect(findChromium({ path, log })).resolves.toBe(join(path, name))
  }
})

test('findChromium() installs one, after fetching the lists of packages if it must', async () => {
  const install = `cd "\${0%/*}"; echo "$*" >> calls; [ "$1" = update ] && exit; [ -e again ] && : > chromium && /bin/chmod +x chromium && exit; : > again; exit 1`
  const path = await directoryOf({ 'apt-get': install })
  await expect(findChromium({ path, log })).resolves.toBe(join(path, 'chromium'))
})

test('findChromium() says what to install if it cannot', async () => {
  const path = await directoryOf({ 'apt-get': 'echo "no network" >&2; exit 100' })
  await expect(findChromium({ path, log })).rejects.toThrow(
    'no Chromium is installed (apt-get failed: no network). Install it: "apt-get install chromium"',
  )
})
