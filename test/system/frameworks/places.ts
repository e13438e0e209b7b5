/** Where the apps in apps/ run: how each is bundled and started there. */
import { execFile } from 'node:child_process'
import { cp, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { convertV4MiniflareOptions, Miniflare } from 'miniflare'
import { send } from '../../support/http-client.ts'
import { startProgram } from '../../support/program.ts'
import { installRuntimes, RUNTIMES } from '../package/runtimes/install.ts'

const FOLDER = import.meta.dirname
/** A copy of apps/, with what their frameworks build. */
export const BUILT = join(FOLDER, 'dist')
const BIN = join(FOLDER, 'node_modules/.bin')

/** Before `nodejs_compat` was on by default, and without it: such a Worker has no module of Node. */
const OLD_DATE = '2023-03-01'

export interface Place {
  readonly name: string
  /** Path of the calls; default: `/`. */
  readonly calls?: string
  /**
   * When a slot is given back: when the response has ended, and (unless this says `end`) also when the client has gone. Null
   * where nothing follows a response to its end.
   */
  readonly slots?: 'end' | null
  /** False where an app makes the response of its own. */
  readonly fields?: false
  /** True if it has a page that is made when it is built, which nobody's limits may refuse. */
  readonly prerenders?: true
  /** True if the address of a caller is known there, or how it is asked for. */
  readonly address?: boolean
}

export interface Redis {
  readonly url: string
  readonly token: string
}

export interface App {
  readonly places: readonly Place[]
  /** What bundles it. */
  readonly bundler: string
  build(): Promise<unknown>
  /** @param redis REST front of a Redis, for apps that use one */
  start(port: number, redis: Redis): Promise<() => Promise<unknown>>
}

/** Installs the frameworks, the runtimes, and the package from its packed file. */
export async function install(packed: string): Promise<void> {
  installRuntimes()
  // Without a lock: npm leaves out of it what they have for other platforms, and then refuses it.
  const options = ['--no-save', '--no-package-lock', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund']
  await run('npm', ['install', ...options, '--loglevel=error', packed])
  await rm(BUILT, { recursive: true, force: true })
  await cp(join(FOLDER, 'apps'), BUILT, { recursive: true })
}

async function run(command: string, args: readonly string[], cwd = FOLDER): Promise<void> {
  const env = { ...process.env, NODE_ENV: 'production', NEXT_TELEMETRY_DISABLED: '1', ASTRO_TELEMETRY_DISABLED: '1' }
  await promisify(execFile)(command, args, { cwd, env }).catch(({ stdout, stderr }) => {
    throw new Error(`${[command, ...args].join(' ')}\n${stdout}${stderr}`)
  })
}

/** Starts a program that takes the port to listen on from its environment. */
async function startServer(command: string, args: readonly string[], port: number, cwd: string) {
  const env = { ...process.env, NODE_ENV: 'production', PORT: `${port}`, HOST: '127.0.0.1' }
  return startProgram(command, args, { cwd, env, stdio: ['ignore', 'ignore', 'inherit'] }).end
}

/** Waits until an app answers. @throws Error if it does not within a minute */
export async function untilServed(url: URL): Promise<void> {
  for (const endMs = Date.now() + 60_000; Date.now() < endMs; ) {
    const answer = await send(url, { path: '/end' }).catch(() => undefined)
    if (answer) return
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  throw new Error(`nothing answers at ${url}`)
}

function esbuild(entry: string, options: readonly string[]): Promise<void> {
  return run(join(BIN, 'esbuild'), [entry, '--bundle', '--outdir=bundled', '--log-level=error', ...options], BUILT)
}

/** What wrangler, Vercel's builds and the like ask packages for: nothing of Node is found. */
const noNode = (format: string, conditions: string) => [
  `--format=${format}`,
  '--platform=neutral',
  '--main-fields=module,main',
  `--conditions=${conditions}`,
]

const FRAMEWORKS = ['express', 'fastify', 'koa', '@nestjs/*', 'reflect-metadata', 'hono', '@hono/*']

/** A server of Node, whose framework is not bundled, as is usual there. */
function onNode(name: string, file: string): App {
  const entry = `servers/${file}.js`
  return {
    places: [{ name, address: true }],
    bundler: 'esbuild',
    build: () =>
      esbuild(entry, [
        '--platform=node',
        '--out-extension:.js=.cjs',
        ...FRAMEWORKS.map((each) => `--external:${each}`),
      ]),
    start: (port) => startServer(process.execPath, [`bundled/${file}.cjs`], port, BUILT),
  }
}

/** A server with all that it needs, in ES modules. */
function bundledFor(bundler: string): App {
  const folder = join(BUILT, 'bundled', bundler)
  return {
    places: [{ name: `node:http in an ES module by ${bundler}`, address: true }],
    bundler,
    build: () => run(process.execPath, ['servers/bundle.js', bundler, './servers/http.js', folder], BUILT),
    start: (port) => startServer(process.execPath, [join(folder, 'http.mjs')], port, BUILT),
  }
}

/** An app of a framework that has a command to build it. */
function framework(folder: string, places: readonly Place[], command: string, start: (port: number) => string[]): App {
  const [bin = '', ...args] = command.split(' ')
  return {
    places,
    bundler: command,
    build: () => run(process.execPath, [join(BIN, bin), ...args], join(BUILT, folder)),
    start: (port) => startServer(process.execPath, start(port), port, join(BUILT, folder)),
  }
}

/** A bundle for a runtime that is installed beside. */
function onRuntime(runtime: string, file: string, place: Place): App {
  const [command = '', ...args] = RUNTIMES[runtime] ?? []
  const forBun = ['build', `fetch/${file}.js`, '--target=bun', `--outfile=bundled/${file}.js`]
  return {
    places: [place],
    bundler: runtime === 'Bun' ? 'bun build' : 'esbuild',
    build: () => (runtime === 'Bun' ? run(command, forBun, BUILT) : esbuild(`fetch/${file}.js`, noNode('esm', 'deno'))),
    start: (port) => startServer(command, [...args, `bundled/${file}.js`], port, BUILT),
  }
}

function oldWorker(name: string, file: string): App {
  return {
    // At such a date, clients that go are seen only with the flag `enable_request_signal`.
    places: [{ name: `${name}, Worker of ${OLD_DATE}`, slots: 'end' }],
    bundler: 'esbuild',
    build: () => esbuild(`fetch/${file}.js`, noNode('esm', 'workerd,worker,browser')),
    async start(port, { url: URL, token: TOKEN }) {
      const contents = await readFile(join(BUILT, `bundled/${file}.js`), 'utf8')
      const modules = [{ type: 'ESModule' as const, path: `${file}.js`, contents }]
      const bindings = { URL, TOKEN, KEY_PREFIX: crypto.randomUUID() }
      const worker = new Miniflare(
        convertV4MiniflareOptions({ modules, bindings, compatibilityDate: OLD_DATE, host: '127.0.0.1', port }),
      )
      await worker.ready
      return () => worker.dispose()
    },
  }
}

const vercelEdge: App = {
  // Its server tells no handler of clients that go.
  places: [{ name: "Vercel's edge (edge-runtime)", slots: 'end' }],
  bundler: 'esbuild',
  build: () => esbuild('fetch/edge.js', noNode('iife', 'edge-light,worker,browser')),
  async start(port) {
    const path = pathToFileURL(join(FOLDER, 'node_modules/edge-runtime/dist/index.js')).href
    const { EdgeRuntime, runServer } = await import(path)
    const runtime = new EdgeRuntime({ initialCode: await readFile(join(BUILT, 'bundled/edge.js'), 'utf8') })
    const server = await runServer({ runtime, host: '127.0.0.1', port })
    return async () => void server.close()
  },
}

export const APPS: readonly App[] = [
  onNode('node:http', 'http'),
  onNode('Express 5', 'express'),
  onNode('Fastify 5', 'fastify'),
  onNode('Koa 3', 'koa'),
  onNode('NestJS 12', 'nest'),
  onNode('Hono on Node', 'hono'),
  ...['esbuild', 'rollup', 'webpack'].map(bundledFor),
  framework(
    'next',
    [
      { name: 'Next.js 16, route handler' },
      { name: 'Next.js 16, route handler at the edge', calls: '/edge', slots: null },
      { name: 'Next.js 16, proxy', calls: '/limited', slots: null },
    ],
    'next build',
    (port) => [join(BIN, 'next'), 'start', '-H', '127.0.0.1', '-p', `${port}`],
  ),
  framework('sveltekit', [{ name: 'SvelteKit 3, handle', address: true, prerenders: true }], 'vite build', () => [
    'build/index.js',
  ]),
  framework('astro', [{ name: 'Astro 7, middleware', address: true, prerenders: true }], 'astro build', () => [
    'dist/server/entry.mjs',
  ]),
  // Both versions have a command of this name.
  framework('nitro', [{ name: 'Nitro 3, route', address: true }], '../nitro/dist/cli/index.mjs build', () => [
    '.output/server/index.mjs',
  ]),
  framework('nitro2', [{ name: 'Nitro 2, route', address: true }], 'nitropack build', () => [
    '.output/server/index.mjs',
  ]),
  vercelEdge,
  onRuntime('Bun', 'bun', { name: 'Bun.serve', address: true }),
  onRuntime('Bun', 'elysia', { name: 'Elysia 1 on Bun', address: true }),
  onRuntime('Bun', 'trpc', { name: 'tRPC 11, procedure (sluice)', calls: '/hello', fields: false, slots: null }),
  onRuntime('Deno', 'deno', { name: 'Deno.serve', address: true }),
  oldWorker('sluice/fetch over Upstash', 'worker'),
  oldWorker('sluice/hono', 'hono-worker'),
]

/** Bundles the limiter in memory for a browser. @returns the script */
export async function bundleForBrowser(): Promise<string> {
  await esbuild('fetch/browser.js', ['--platform=browser', '--format=iife'])
  return readFile(join(BUILT, 'bundled/browser.js'), 'utf8')
}
