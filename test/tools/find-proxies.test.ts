import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findProxy } from '../../tools/find-proxies.ts'
import { folderOfPrograms } from '../support/folder-of-programs.ts'

test('findProxy() takes what is installed, else unpacks the package of Debian', async () => {
  const installed = await folderOfPrograms({ caddy: '' })
  await expect(findProxy('caddy', installed, join(installed, 'cache'))).resolves.toBe(join(installed, 'caddy'))
  const path = await folderOfPrograms({
    'apt-get': `[ "$*" = "download nginx" ] && : > nginx_1.deb`,
    'dpkg-deb': `[ "$1" = --extract ] && /bin/mkdir -p usr/sbin && : > usr/sbin/nginx && /bin/chmod +x usr/sbin/nginx`,
  })
  const cache = join(path, 'cache')
  await expect(findProxy('nginx', path, cache)).resolves.toBe(join(cache, 'usr/sbin/nginx'))
})

test('findProxy() says what to install', async () => {
  const path = await folderOfPrograms({ 'apt-get': 'echo "E: no network" >&2; exit 100' })
  await expect(findProxy('caddy', path, join(path, 'cache'))).rejects.toThrow(
    'no caddy is installed (apt-get failed: E: no network). Install it: "apt-get install caddy", "brew install caddy"',
  )
})
