/** The package in projects of CommonJS, of Jest and of older compilers, as docs/library.md says. */
import { cp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type InstalledProject, installProject } from '../../support/installed-project.ts'
import { startUpstream, type Upstream } from '../../support/upstream.ts'
import { installRuntimes, RUNTIMES } from './runtimes/install.ts'

const ROOT = join(import.meta.dirname, '../../..')
const USES = { fetch: [200, 429, 200, 400, ['default-1m']], library: [true, false, 2, 'local'], node: [200, 429] }
const FILES = [...Object.keys(USES), 'types', 'outbound'].map((use) => `${use}.ts`)
const PACKAGES = [
  'jest@30.5.2',
  'babel-jest@30.5.2',
  '@babel/preset-env@7',
  // The oldest that docs/library.md claims.
  'typescript@5.2.2',
  '@types/node@20',
]

let api: Upstream
let project: InstalledProject

beforeAll(async () => {
  installRuntimes()
  api = await startUpstream((_request, response) => response.end('hello'))
  const from = join(import.meta.dirname, 'commonjs')
  project = await installProject({ from, packed: inject('packed'), packages: [inject('packed'), ...PACKAGES] })
  await cp(join(import.meta.dirname, 'uses'), project.folder, { recursive: true })
})
afterAll(async () => {
  await api.stop()
  await project?.remove()
})

/** Compiles the uses by the oldest compiler. */
function compile(module: string, resolution: string, ...others: readonly string[]): Promise<string> {
  const globals = [
    '--target',
    'es2022',
    '--lib',
    'es2022',
    '--types',
    'node',
    '--strict',
    '--exactOptionalPropertyTypes',
  ]
  const modules = ['--module', module, '--moduleResolution', resolution]
  return project.run('node_modules/.bin/tsc', [...globals, ...modules, ...others, ...FILES])
}

test.each([
  ['esnext', 'bundler'],
  ['node16', 'node16'],
])('TypeScript 5.2 takes and refuses what it should, with modules of %s as for %s', async (module, resolution) => {
  await compile(module, resolution, '--noEmit', '--allowImportingTsExtensions')
})

test('with moduleResolution node, what TypeScript 5.2 compiles to CommonJS runs on Node 20, 22 and 24', async () => {
  await compile('commonjs', 'node', '--outDir', 'compiled')
  await writeFile(join(project.folder, 'compiled/package.json'), '{ "type": "commonjs" }')
  for (const runtime of ['Node 20', 'Node 22', 'Node']) {
    const [node = ''] = RUNTIMES[runtime] ?? []
    for (const [use, expected] of Object.entries(USES)) {
      expect(JSON.parse(await project.run(node, ['compiled.cjs', './compiled', use, api.url]))).toEqual(expected)
    }
  }
})

test('Jest requires it on Node 24 with the modules of its virtual machine, and on Node 20 compiled', async () => {
  const page = await readFile(join(ROOT, 'docs/library.md'), 'utf8')
  const [, pattern = ''] = /transformIgnorePatterns: \['(.*)'\]/.exec(page) ?? []
  const [, flag = ''] = /`NODE_OPTIONS=(\S+) jest`/.exec(page) ?? []
  const configure = (options: object) => writeFile(join(project.folder, 'jest.config.json'), JSON.stringify(options))
  const runJest = (node = '', env = {}) => project.run(node, ['node_modules/.bin/jest', '--no-cache'], env)
  await configure({})
  await runJest(process.execPath, { NODE_OPTIONS: flag })
  await configure({ transformIgnorePatterns: [pattern] })
  await runJest(RUNTIMES['Node 20']?.[0])
})
