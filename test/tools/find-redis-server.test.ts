import { chmod, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findRedisServer, installRedis } from '../../tools/find-redis-server.ts'
import { folderOfPrograms } from '../support/folder-of-programs.ts'

const silent = () => {}
const fails = () => Promise.reject(new Error('nothing to install from'))
/** Stands for a package manager that brings a server. */
const INSTALL = `cd "\${0%/*}"; echo "$*" >> calls; : > redis-check-rdb; /bin/chmod +x redis-check-rdb`

test('findRedisServer() takes the first executable on PATH', async () => {
  const first = await folderOfPrograms({})
  const second = await folderOfPrograms({ 'redis-server': '' })
  const third = await folderOfPrograms({ 'redis-server': '' })
  const found = findRedisServer({ path: `${first}:${second}:${third}`, install: fails })
  await expect(found).resolves.toBe(join(second, 'redis-server'))
})

test("findRedisServer() takes the server of Debian's redis-tools, and installs nothing", async () => {
  const first = await folderOfPrograms({})
  const second = await folderOfPrograms({ 'redis-check-rdb': '' })
  const found = findRedisServer({ path: `${first}:${second}`, install: fails })
  await expect(found).resolves.toBe(join(second, 'redis-check-rdb'))
})

test('findRedisServer() prefers what is called redis-server', async () => {
  const path = await folderOfPrograms({ 'redis-check-rdb': '', 'redis-server': '' })
  await expect(findRedisServer({ path, install: fails })).resolves.toBe(join(path, 'redis-server'))
})

test('findRedisServer() installs if what is on PATH cannot be executed', async () => {
  const path = await folderOfPrograms({ 'redis-server': '' })
  await chmod(join(path, 'redis-server'), 0o644)
  await expect(findRedisServer({ path, install: async () => '/installed' })).resolves.toBe('/installed')
})

test('findRedisServer() throws what the installer throws', async () => {
  await expect(findRedisServer({ path: '', install: fails })).rejects.toThrow('nothing to install from')
})

test('installRedis() answers the server that apt-get brought', async () => {
  const path = await folderOfPrograms({ 'apt-get': INSTALL })
  await expect(installRedis({ path, isRoot: true, log: silent })).resolves.toBe(join(path, 'redis-check-rdb'))
  const calls = (await readFile(join(path, 'calls'), 'utf8')).trim().split('\n')
  expect(calls).toHaveLength(1)
  expect(calls[0]).toMatch(/^install -y .*redis-tools$/)
})

test('installRedis() says what it installs, and how, before it does', async () => {
  const said: string[] = []
  const path = await folderOfPrograms({ 'apt-get': 'echo "E: locked" >&2; exit 100' })
  await installRedis({ path, isRoot: true, log: (line) => said.push(line) }).catch(() => {})
  expect(said).toEqual(['No Redis is installed: installing the package "redis-tools" with apt-get …'])
})

test('installRedis() fetches the package lists if apt-get does not know the package', async () => {
  const path = await folderOfPrograms({
    'apt-get': `cd "\${0%/*}"; [ "$1" != update ] || { : > lists; exit; }; [ -e lists ] || exit 100; ${INSTALL}`,
  })
  await expect(installRedis({ path, isRoot: true, log: silent })).resolves.toBe(join(path, 'redis-check-rdb'))
})

test('installRedis() never goes through sudo: it says what to run, or takes a package manager that needs no root', async () => {
  const asRoot = { 'apt-get': INSTALL, sudo: 'touch "$(dirname "$0")/asked"; shift; exec "$@"' }
  const path = await folderOfPrograms(asRoot)
  await expect(installRedis({ path, isRoot: false, log: silent })).rejects.toThrow(
    /only root may install the package "redis-tools" with apt-get\)\. Install Redis .*"sudo apt-get install redis-tools"/,
  )
  expect(await readdir(path)).not.toContain('asked')
  const alsoBrew = await folderOfPrograms({ ...asRoot, brew: INSTALL })
  await expect(installRedis({ path: alsoBrew, isRoot: false, log: silent })).resolves.toContain(alsoBrew)
  expect(await readdir(alsoBrew)).not.toContain('asked')
})

test.for([
  ['there is no package manager', {}, 'no package manager that could install it'],
  ['the package manager fails', { 'apt-get': 'echo "E: locked" >&2; exit 100' }, 'apt-get failed: E: locked'],
  ['the package has no server', { apk: '' }, 'apk installed no redis-server'],
] as const)('installRedis() says in one line what to install if %s', async ([, scripts, reason]) => {
  const path = await folderOfPrograms(scripts)
  const error: Error = await installRedis({ path, isRoot: true, log: silent }).then(
    () => expect.unreachable(),
    (error) => error,
  )
  expect(error.message).toContain(`No Redis is installed (${reason}). Install Redis`)
  expect(error.message).not.toContain('\n')
})
