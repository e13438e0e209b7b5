import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findPrometheus } from '../../tools/find-prometheus.ts'
import { folderOfPrograms } from '../support/folder-of-programs.ts'

const BOTH = { prometheus: '', promtool: '' }

test('findPrometheus() takes what is installed', async () => {
  const path = await folderOfPrograms(BOTH)
  await expect(findPrometheus(path, join(path, 'cache'))).resolves.toEqual({
    server: join(path, 'prometheus'),
    promtool: join(path, 'promtool'),
  })
})

test('findPrometheus() unpacks the package of Debian once, and installs nothing', async () => {
  const path = await folderOfPrograms({
    'apt-get': `[ "$*" = "download prometheus" ] && echo x >> "\${0%/*}/calls" && : > prometheus_2.deb`,
    'dpkg-deb': `[ "$1" = --extract ] && /bin/mkdir -p usr/bin && for name in prometheus promtool; do
      : > usr/bin/$name; /bin/chmod +x usr/bin/$name
    done`,
  })
  const bin = join(path, 'cache/usr/bin')
  const expected = { server: join(bin, 'prometheus'), promtool: join(bin, 'promtool') }
  await expect(findPrometheus(path, join(path, 'cache'))).resolves.toEqual(expected)
  await rm(join(path, 'apt-get'))
  await expect(findPrometheus(path, join(path, 'cache'))).resolves.toEqual(expected)
})

test.each([
  [
    'no apt-get',
    {},
    'no Prometheus is installed (there is no apt-get). Install Prometheus 2.42 or newer: "apt-get install prometheus"',
  ],
  [
    'an unavailable network',
    { 'apt-get': 'echo "E: no network" >&2; exit 100' },
    'no Prometheus is installed (apt-get failed: E: no network). Install Prometheus',
  ],
])('findPrometheus() says what to install where there is %s', async (_case, scripts, message) => {
  const path = await folderOfPrograms(scripts)
  await expect(findPrometheus(path, join(path, 'cache'))).rejects.toThrow(message)
})
