import { execFile } from 'node:child_process'
import { globSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { createTestHarness, type TestHarness } from 'wrangler'
import { bundleProgram } from '../../../tools/package-sizes.ts'
import { type InstalledProject, installProject, type Project } from '../../support/installed-project.ts'
import { startUpstream, type Upstream } from '../../support/upstream.ts'

const ROOT = join(import.meta.dirname, '../../..')
const { exports, dependencies, devDependencies, peerDependencies } = JSON.parse(
  await readFile(join(ROOT, 'package.json'), 'utf8'),
)

const USES_FOLDER = join(import.meta.dirname, 'uses')
/** What comes of each use in `uses/`, on Node. */
const USES: Readonly<Record<string, unknown>> = {
  fetch: [200, 429, 200, 400, ['default-1m']],
  hono: [200, 429, 200, 400, ['default-1m']],
  library: [true, false, 2, 'local'],
  node: [200, 429],
  outbound: [200, 200, 'WAIT_TOO_LONG'],
  worker: [200, 429],
}
/** Those that need nothing beside the package. */
const ALONE = ['fetch', 'library', 'node', 'outbound']
/** Those that run elsewhere as well, and know nothing of Node. */
const EVERYWHERE = Object.keys(USES).filter((use) => use !== 'node')

interface TypeCheck {
  /** What the project runs on. */
  readonly on: string
  /** How it finds modules. */
  readonly resolution: 'bundler' | 'nodenext'
  /** What tells of its globals. */
  readonly types: string
}

const ON_NODE: TypeCheck = { on: 'Node', resolution: 'nodenext', types: '@types/node' }
const ON_WORKERS: TypeCheck = { on: 'Workers', resolution: 'bundler', types: '@cloudflare/workers-types' }

async function checkTypes(project: Project, uses: readonly string[], { resolution, types }: TypeCheck) {
  const module = ['--module', resolution === 'bundler' ? 'esnext' : resolution, '--moduleResolution', resolution]
  const globals = ['--target', 'es2024', '--lib', 'es2024', '--types', join(ROOT, 'node_modules', types)]
  const strict = ['--strict', '--exactOptionalPropertyTypes', '--noEmit', '--allowImportingTsExtensions']
  const files = uses.map((use) => `${use}.ts`)
  await project.run('tsc', [...module, ...globals, ...strict, ...files])
}

let api: Upstream
beforeAll(async () => {
  api = await startUpstream((_request, response) => response.end('hello'))
})
afterAll(() => api.stop())

test('each entry in src/ is exported, with its types', () => {
  const files = globSync('src/*.ts', { cwd: ROOT }).filter((file) => file !== 'src/cli.ts')
  const entries = files.map((file) => basename(file, '.ts'))
  const expected = entries.map((entry) => [
    entry === 'index' ? '.' : `./${entry}`,
    { types: `./lib/${entry}.d.ts`, default: `./lib/${entry}.js` },
  ])
  expect(exports).toEqual({ ...Object.fromEntries(expected), './package.json': './package.json' })
})

test('the packed file is as bundlers, Node and TypeScript expect it', async () => {
  const packed = inject('packed')
  const run = promisify(execFile)
  // Both exit with an error if there is something to tell. The package is modules only, which is what `esm-only` allows.
  await Promise.all([run('publint', [packed, '--strict']), run('attw', [packed, '--profile', 'esm-only'])])
})

describe('a project with nothing but the package', () => {
  let project: InstalledProject
  beforeAll(async () => {
    project = await installProject({ from: USES_FOLDER, packed: inject('packed'), packages: [inject('packed')] })
  })
  afterAll(() => project?.remove())

  test('gets what the package cannot do without, and no more', () => {
    expect(project.packages.toSorted()).toEqual(['sluice', ...Object.keys(dependencies)].toSorted())
  })

  // npm 11 warns of each of these scripts, `prepare` among them, though it runs none.
  test('needs no script to be approved', async () => {
    const { scripts } = JSON.parse(await readFile(join(project.folder, 'node_modules/sluice/package.json'), 'utf8'))
    const atInstall = ['preinstall', 'install', 'postinstall', 'preprepare', 'prepare', 'postprepare']
    expect(Object.keys(scripts).filter((name) => atInstall.includes(name))).toEqual([])
  })

  test('has types', () => checkTypes(project, [...ALONE, 'types'], ON_NODE))

  test.each(ALONE)('runs %s', async (use) => {
    expect(JSON.parse(await project.run('node', ['on-node.ts', use, api.url]))).toEqual(USES[use])
  })

  test('has the command', async () => {
    expect(await project.run('node_modules/.bin/sluice', ['--version'])).toMatch(/^\d+\.\d+\.\d+\n$/)
  })

  test('can leave out what a program does not use', async () => {
    const inRedis = await bundleProgram("import { createLimiter, redisStore } from 'sluice'", project.folder)
    const inMemory = await bundleProgram("import { createLimiter } from 'sluice'", project.folder)
    expect([inRedis.includes('XADD'), inMemory.includes('XADD')]).toEqual([true, false])
  })
})

describe('a project with the package and all that its entries can use', () => {
  let project: InstalledProject
  let workerd: TestHarness
  beforeAll(async () => {
    // Those of sluice serve bring the types of another Node with them.
    const ofEntries = Object.keys(peerDependencies).filter((peer) => !peer.startsWith('@grpc/'))
    const peers = ofEntries.map((peer) => `${peer}@${devDependencies[peer]}`)
    project = await installProject({
      from: USES_FOLDER,
      packed: inject('packed'),
      packages: [inject('packed'), ...peers],
    })
    const vars = { API_URL: api.url }
    workerd = createTestHarness({ root: project.folder, workers: [{ configPath: 'wrangler.toml', vars }] })
    await workerd.listen()
  })
  afterAll(async () => {
    await workerd?.close()
    await project?.remove()
  })

  test.each([ON_NODE, ON_WORKERS])('has types on $on, with modules for $resolution', async (check) => {
    await checkTypes(project, check === ON_NODE ? Object.keys(USES) : EVERYWHERE, check)
  })

  // The others have run without what is installed here.
  test.each(Object.entries(USES).filter(([use]) => !ALONE.includes(use)))('runs %s on Node', async (use, result) => {
    expect(JSON.parse(await project.run('node', ['on-node.ts', use, api.url]))).toEqual(result)
  })

  test.each(EVERYWHERE)('runs %s in workerd', async (use) => {
    expect(await (await workerd.fetch(`/${use}`)).json()).toEqual(USES[use])
  })
})
