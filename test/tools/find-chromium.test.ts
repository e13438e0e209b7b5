import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findChromium } from '../../tools/find-chromium.ts'
import { folderOfPrograms } from '../support/folder-of-programs.ts'

const log = () => {}

test('findChromium() takes the one that is there, under any of its names', async () => {
  for (const name of ['chromium', 'chromium-browser', 'google-chrome']) {
    const path = await folderOfPrograms({ [name]: '' })
    await expect(findChromium({ path, isRoot: true, log })).resolves.toBe(join(path, name))
  }
})

test('findChromium() installs one, after fetching the lists of packages if it must', async () => {
  const install = `cd "\${0%/*}"; echo "$*" >> calls; [ "$1" = update ] && exit; [ -e again ] && : > chromium && /bin/chmod +x chromium && exit; : > again; exit 1`
  const path = await folderOfPrograms({ 'apt-get': install })
  await expect(findChromium({ path, isRoot: true, log })).resolves.toBe(join(path, 'chromium'))
})

test('findChromium() says what to install if it cannot', async () => {
  const path = await folderOfPrograms({ 'apt-get': 'echo "no network" >&2; exit 100' })
  await expect(findChromium({ path, isRoot: true, log })).rejects.toThrow(
    'No Chromium is installed (apt-get failed: no network). Install it: "apt-get install chromium"',
  )
})
