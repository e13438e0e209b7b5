import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import wrangler from '../../node_modules/wrangler/package.json' with { type: 'json' }
import { VARIABLES } from '../../src/http/config/variables.ts'
import { runInside } from './run-command.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-init-'))
  onTestFinished(() => rm(folder, { recursive: true }))
})

const API = ['--api', 'https://api.acme.test/v1/']
const run = (...args: readonly string[]) => runInside(['init', ...args], { cwd: folder })
const read = (name: string) => readFile(join(folder, name), 'utf8')

test.each(['redis', 'durable-object'])(
  'sluice init starts a project over %s that passes sluice check',
  async (store) => {
    const { code, stdout } = await run('My Gateway', ...API, '--store', store)
    expect(code).toBe(0)
    const steps =
      store === 'redis' ? 'cp .dev.vars.example .dev.vars # and set the URL and token of your Redis in it\n' : ''
    expect(stdout).toContain(`cd My Gateway && ${steps}npm install && npm run dev`)
    expect(JSON.parse(await read('My Gateway/package.json')).engines).toEqual(wrangler.engines)
    expect((await readdir(join(folder, 'My Gateway'))).toSorted()).toEqual(
      ['.dev.vars.example', '.gitignore', 'package.json', 'src', 'wrangler.toml'].toSorted(),
    )
    const toml = await read('My Gateway/wrangler.toml')
    expect(toml).toContain('name = "my-gateway"')
    expect(toml).toContain(`\nSTORE = "${store}"\n`)
    expect(toml).toContain('\nUPSTREAM_URL = "https://api.acme.test/v1"\n')
    // Each variable is explained in one of the two files.
    const all = toml + (await read('My Gateway/.dev.vars.example'))
    expect(VARIABLES.filter((name) => !all.includes(`${name}`))).toEqual([])
    expect(toml.includes('[placement]')).toBe(store === 'redis')
    const secrets =
      store === 'redis' ? { UPSTASH_REDIS_REST_URL: 'https://eu1-x.upstash.io', UPSTASH_REDIS_REST_TOKEN: 'x' } : {}
    const config = join(folder, 'My Gateway/wrangler.toml')
    const checked = await runInside(['check', '--config', config], { cwd: folder, env: secrets })
    expect(checked).toMatchObject({ code: 0, stdout: expect.stringContaining('0 errors, 0 warnings') })
  },
)

test('sluice init into a file says that it cannot', async () => {
  await writeFile(join(folder, 'taken'), '')
  const { code, stderr } = await run('taken', ...API, '--store', 'durable-object')
  expect([code, stderr]).toEqual([2, 'error: cannot write taken/package.json (EEXIST)\n'])
})

test('sluice init overwrites nothing, and then writes nothing', async () => {
  await writeFile(join(folder, 'wrangler.toml'), 'mine')
  const { code, stderr } = await run(...API, '--store', 'redis')
  expect([code, stderr]).toEqual([
    2,
    'error: . has wrangler.toml already\n  Nothing was written. Name another directory.\n',
  ])
  expect(await readdir(folder)).toEqual(['wrangler.toml'])
  expect(await read('wrangler.toml')).toBe('mine')
})

test.each([
  [['--api', 'api.acme.test'], 'error: --api: expected an http or https URL without credentials, query or fragment'],
  [['--store', 'redis'], 'error: there is no terminal to ask\n  Name them by --api and --store.\n'],
  [[...API, '--store', 'memory'], 'memory'],
])('sluice init %j writes nothing', async (args, message) => {
  const { code, stderr } = await run(...args)
  expect(code).toBe(2)
  expect(stderr).toContain(message)
  expect(await readdir(folder)).toEqual([])
})

test('sluice init does not start a project that npm cannot install', async () => {
  await writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'sluice' }))
  const { code, stderr } = await run('elsewhere', ...API, '--store', 'redis')
  expect([code, stderr]).toEqual([2, expect.stringContaining('error: npm installs nothing from a clone of Sluice\n')])
  expect(await readdir(folder)).toEqual(['package.json'])
})

test('sluice init depends on what it was installed from', async () => {
  const installed = { sluice: 'file:packed/sluice-0.1.0.tgz', 'sluice-command': 'file:packed/sluice-command-0.1.0.tgz' }
  await writeFile(join(folder, 'package.json'), JSON.stringify({ dependencies: installed }))
  expect((await run('a/b', ...API, '--store', 'redis')).code).toBe(0)
  expect(JSON.parse(await read('a/b/package.json'))).toMatchObject({
    dependencies: { sluice: 'file:../../packed/sluice-0.1.0.tgz' },
    devDependencies: { 'sluice-command': 'file:../../packed/sluice-command-0.1.0.tgz' },
  })
})
