import { execFile } from 'node:child_process'
import { globSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest'
import { createTestHarness, type TestHarness } from 'wrangler'
import { bundleProgram } from '../../../tools/package-sizes.ts'
import { type InstalledProject, installProject, type Project } from '../../support/installed-project.ts'
import { descriptor, RateLimitClient } from '../../support/rate-limit-client.ts'
import { startServing } from '../../support/serving-process.ts'
import { startUpstream, type Upstream } from '../../support/upstream.ts'

const ROOT = join(import.meta.dirname, '../../..')
const { exports, dependencies, devDependencies, peerDependencies } = JSON.parse(
  await readFile(join(ROOT, 'package.json'), 'utf8'),
)

/** What the command brings along is its own. */
const PEERS = Object.keys(peerDependencies).filter((peer) => peer !== 'sluice-command')

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

async function checkTypes(
  project: Project,
  uses: readonly string[],
  { resolution, types }: TypeCheck,
  more: readonly string[] = [],
) {
  const module = ['--module', resolution === 'bundler' ? 'esnext' : resolution, '--moduleResolution', resolution]
  const globals = ['--target', 'es2024', '--lib', 'es2024', '--types', join(ROOT, 'node_modules', types)]
  const strict = ['--strict', '--exactOptionalPropertyTypes', '--noEmit', '--allowImportingTsExtensions']
  const files = uses.map((use) => `${use}.ts`)
  await project.run('tsc', [...module, ...globals, ...strict, ...more, ...files])
}

let api: Upstream
beforeAll(async () => {
  api = await startUpstream((_request, response) => response.end('hello'))
})
afterAll(() => api.stop())

test('each entry in src/ is exported, with its types', () => {
  const files = globSync('src/*.ts', { cwd: ROOT }).filter((file) => !['src/cli.ts', 'src/launcher.ts'].includes(file))
  const entries = files.map((file) => basename(file, '.ts'))
  const expected = entries.map((entry) => [
    entry === 'index' ? '.' : `./${entry}`,
    { types: `./lib/${entry}.d.ts`, default: `./lib/${entry}.js` },
  ])
  expect(exports).toEqual({ ...Object.fromEntries(expected), './package.json': './package.json' })
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

  test('needs no script to be approved', async () => {
    const { scripts } = JSON.parse(await readFile(join(project.folder, 'node_modules/sluice/package.json'), 'utf8'))
    expect(scripts).toBeUndefined()
  })

  test('has types', () => checkTypes(project, [...ALONE, 'types'], ON_NODE))

  test.each(ALONE)('runs %s', async (use) => {
    expect(JSON.parse(await project.run('node', ['on-node.ts', use, api.url]))).toEqual(USES[use])
  })

  test('can leave out what a program does not use', async () => {
    const inRedis = await bundleProgram("import { createLimiter, redisStore } from 'sluice'", project.folder)
    const inMemory = await bundleProgram("import { createLimiter } from 'sluice'", project.folder)
    expect([inRedis.includes('XADD'), inMemory.includes('XADD')]).toEqual([true, false])
    const sizes = [inMemory, inRedis].map((text) => gzipSync(text).length / 1_024)
    const page = await readFile(join(ROOT, 'docs/library.md'), 'utf8')
    const said = /([\d.]+) KiB in memory, ([\d.]+) with Redis/.exec(page)?.slice(1).map(Number) ?? []
    expect(said).toEqual(sizes.map((kiB) => expect.closeTo(kiB, 0)))
  })
})

describe('a project with the package and all that its entries can use', () => {
  let project: InstalledProject
  let workerd: TestHarness
  beforeAll(async () => {
    const peers = PEERS.map((peer) => `${peer}@${devDependencies[peer]}`)
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

describe('a project with the least versions that the package accepts', () => {
  let project: InstalledProject
  beforeAll(async () => {
    const peers = PEERS.map((peer) => `${peer}@${peerDependencies[peer].replace('^', '')}`)
    project = await installProject({
      from: USES_FOLDER,
      packed: inject('packed'),
      packages: [inject('packed'), ...peers],
    })
  })
  afterAll(() => project?.remove())

  // The types of Hono 4.6 are not in order by themselves.
  test('has types', () => checkTypes(project, Object.keys(USES), ON_NODE, ['--skipLibCheck']))

  test.each(Object.entries(USES))('runs %s', async (use, result) => {
    expect(JSON.parse(await project.run('node', ['on-node.ts', use, api.url]))).toEqual(result)
  })
})

describe('a project with the command', () => {
  let project: InstalledProject
  let leastPeers: readonly string[]
  beforeAll(async () => {
    const files = [inject('packed'), inject('packedCommand')]
    const { stdout } = await promisify(execFile)('tar', ['-xzOf', inject('packedCommand'), 'package/package.json'])
    const peers: Readonly<Record<string, string>> = JSON.parse(stdout).peerDependencies
    leastPeers = Object.entries(peers).map(([name, range]) => `${name}@${range.replace('^', '')}`)
    project = await installProject({ from: USES_FOLDER, packed: inject('packed'), packages: files })
  })
  afterAll(() => project?.remove())

  test('runs it, of the same version', async () => {
    const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
    expect(await project.run('node_modules/.bin/sluice', ['--version'])).toBe(`${version}\n`)
  })

  test('answers over gRPC with the least versions that it accepts, and says so without', async () => {
    const config = join(project.folder, 'limits.yaml')
    await writeFile(config, 'domain: a\ndescriptors: [{ key: k, rate_limit: { unit: hour, requests_per_unit: 1 } }]\n')
    const env = { DECIDE_TOKEN: 'd'.repeat(32), STORE: 'memory' }
    const command = join(project.folder, 'node_modules/sluice/lib/launcher.js')
    const args = ['--grpc', '0', '--ratelimit-config', config]
    await expect(startServing(env, args, { command })).rejects.toThrow('npm install @grpc/grpc-js @grpc/proto-loader')
    await project.run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', ...leastPeers])
    const serving = await startServing(env, args, { command })
    onTestFinished(() => serving.stop())
    using client = new RateLimitClient(serving.grpc)
    const codes = [1, 2].map(async () => (await client.ask('a', [descriptor(['k', 'v'])])).overallCode)
    expect((await Promise.all(codes)).toSorted()).toEqual(['OK', 'OVER_LIMIT'])
  })
})
