/** Each guide of five minutes, followed from its first line to its last command. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createClient } from '@redis/client'
import { beforeEach, expect, inject, onTestFinished, test } from 'vitest'
import { findProxy } from '../../../tools/find-proxies.ts'
import { findFreePort } from '../../../tools/free-port.ts'
import { json, send } from '../../support/http-client.ts'
import { installProject } from '../../support/installed-project.ts'
import { startProgram } from '../../support/program.ts'
import { startServing } from '../../support/serving-process.ts'
import { startUpstream } from '../../support/upstream.ts'
import { type Guide, readGuide } from './guide.ts'

const ROOT = join(import.meta.dirname, '../../..')
const REDIS_URL = `redis://127.0.0.1:${inject('redisPort')}`
const UPSTASH = {
  UPSTASH_REDIS_REST_URL: inject('redisRestUrl'),
  UPSTASH_REDIS_REST_TOKEN: inject('redisRestToken'),
}

/** The fields of an answer that report the limits. */
const FIELDS = {
  ratelimit: expect.stringMatching(/;r=\d+;t=\d+/),
  'ratelimit-policy': expect.stringMatching(/;q=\d+;w=\d+/),
}

// All guides count the same addresses.
beforeEach(async () => {
  const redis = await createClient({ url: REDIS_URL }).connect()
  await redis.flushAll()
  await redis.close()
})

/** Reads a guide, and installs what it names. @param versions of packages for which it takes the newest */
async function follow(name: string, versions: readonly string[]): Promise<Guide> {
  const guide = await readGuide(name)
  const newest = guide.packages.filter((each) => !versions.some((version) => version.startsWith(`${each}@`)))
  const packages = [...newest, ...versions, inject('packed')]
  const project = await installProject({ from: guide.folder, packed: inject('packed'), packages })
  await rm(guide.folder, { recursive: true })
  onTestFinished(() => project.remove())
  return { ...guide, folder: project.folder }
}

/** Starts a program in the folder of a guide, and waits until it answers. */
async function start(folder: string, port: number, args: readonly string[], env: object): Promise<void> {
  const { child, end } = startProgram(process.execPath, args, {
    cwd: folder,
    env: { ...process.env, CI: '1', NEXT_TELEMETRY_DISABLED: '1', PORT: `${port}`, ...env },
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  onTestFinished(async () => void (await end('SIGTERM')))
  // Another method and path than those that are limited.
  const isServed = () => send(new URL(`http://127.0.0.1:${port}`), { path: '/ready', method: 'OPTIONS' })
  while (!(await isServed().catch(() => undefined))) {
    if (child.exitCode !== null) throw new Error(`${args[0]} has ended`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** Waits until something takes connections, and sends it nothing that would be counted. */
async function untilListening(port: number): Promise<void> {
  const isListening = async () => {
    const socket = connect(port, '127.0.0.1')
    return once(socket, 'connect')
      .finally(() => socket.destroy())
      .then(
        () => true,
        () => false,
      )
  }
  while (!(await isListening())) await new Promise((resolve) => setTimeout(resolve, 20))
}

/** Versions that the repository has installed. */
async function readVersions(...names: readonly string[]): Promise<readonly string[]> {
  const { devDependencies } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  return names.map((name) => `${name}@${devDependencies[name]}`)
}

test('Express', async () => {
  const guide = await follow('express', await readVersions('express', '@redis/client'))
  const port = await findFreePort()
  await start(guide.folder, port, ['app.js'], { REDIS_URL })
  expect(await guide.tryIt(port)).toBe(guide.expected)
})

test('Fastify', async () => {
  const guide = await follow('fastify', await readVersions('fastify', '@redis/client'))
  const port = await findFreePort()
  await start(guide.folder, port, ['app.js'], { REDIS_URL })
  expect(await guide.tryIt(port)).toBe(guide.expected)
  expect((await send(new URL(`http://127.0.0.1:${port}`), { path: '/api' })).headers).toMatchObject(FIELDS)
})

test.each(['Express', 'Fastify'])('NestJS on %s', async (platform) => {
  const { dependencies } = JSON.parse(await readFile(join(ROOT, 'test/system/frameworks/package.json'), 'utf8'))
  const names = ['@nestjs/common', '@nestjs/core', '@nestjs/platform-express', 'reflect-metadata', 'rxjs', 'typescript']
  const own = [...names, '@nestjs/platform-fastify'].map((name) => `${name}@${dependencies[name]}`)
  const guide = await follow('nestjs', [...own, ...(await readVersions('@redis/client', '@types/node'))])
  // Those of `nest new`, as far as they matter.
  const decorators = { experimentalDecorators: true, emitDecoratorMetadata: true }
  const modules = { module: 'nodenext', target: 'es2024', rootDir: '.', outDir: 'dist', types: ['node'] }
  const compilerOptions = { ...modules, ...decorators, strict: true, skipLibCheck: true }
  await writeFile(join(guide.folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts'] }))
  const main = join(guide.folder, 'main.ts')
  if (platform === 'Fastify') {
    const text = await readFile(main, 'utf8')
    const adapter = "import { FastifyAdapter } from '@nestjs/platform-fastify'\n"
    await writeFile(main, adapter + text.replace('create(AppModule)', 'create(AppModule, new FastifyAdapter())'))
  }
  await promisify(execFile)(process.execPath, [join(guide.folder, 'node_modules/typescript/bin/tsc')], {
    cwd: guide.folder,
  })
  const port = await findFreePort()
  await start(guide.folder, port, ['dist/main.js'], { REDIS_URL })
  expect(await guide.tryIt(port)).toBe(guide.expected)
  const url = new URL(`http://127.0.0.1:${port}`)
  const refused = await send(url, { path: '/login', method: 'POST' })
  expect(refused.headers).toMatchObject({ ...FIELDS, 'retry-after': expect.stringMatching(/^\d+$/) })
  expect(json(refused)).toMatchObject({ statusCode: 429, message: 'Too Many Requests' })
  expect((await send(url)).headers).toMatchObject(FIELDS)
})

test('Next.js', { timeout: 300_000 }, async () => {
  const next = ['next', 'react', 'react-dom']
  const { dependencies } = JSON.parse(await readFile(join(ROOT, 'test/system/frameworks/package.json'), 'utf8'))
  const versions = next.map((name) => `${name}@${dependencies[name]}`)
  const guide = await follow('nextjs', [...versions, ...(await readVersions('@upstash/redis'))])
  const bin = join(guide.folder, 'node_modules/next/dist/bin/next')
  const port = await findFreePort()
  const layout = 'export default ({ children }) => <html><body>{children}</body></html>\n'
  await writeFile(join(guide.folder, 'app/layout.js'), layout)
  await mkdir(join(guide.folder, 'app/pages'))
  await writeFile(join(guide.folder, 'app/pages/page.js'), 'export default () => <p>a page</p>\n')
  const building = startProgram(process.execPath, [bin, 'build'], {
    cwd: guide.folder,
    env: { ...process.env, NODE_ENV: 'production', NEXT_TELEMETRY_DISABLED: '1', ...UPSTASH },
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  await new Promise((resolve) => building.child.once('close', resolve))
  expect(await building.end()).toBe(0)
  await start(guide.folder, port, [bin, 'start', '-H', '127.0.0.1', '-p', `${port}`], {
    ...{ NODE_ENV: 'production' },
    ...UPSTASH,
  })
  expect(await guide.tryIt(port)).toBe(guide.expected)
  for (const path of ['/api/hello', '/pages']) {
    expect((await send(new URL(`http://127.0.0.1:${port}`), { path })).headers).toMatchObject(FIELDS)
  }
})

test('Hono on Workers', async () => {
  const guide = await follow('hono-on-workers', await readVersions('hono', '@upstash/redis'))
  const variables = Object.entries(UPSTASH).map(([name, value]) => `${name}=${value}\n`)
  await writeFile(join(guide.folder, '.dev.vars'), variables.join(''))
  const port = await findFreePort()
  await start(guide.folder, port, [join(ROOT, 'node_modules/wrangler/bin/wrangler.js'), 'dev', '--port', `${port}`], {})
  expect(await guide.tryIt(port)).toBe(guide.expected)
})

test('nginx', async () => {
  const guide = await readGuide('nginx')
  onTestFinished(() => rm(guide.folder, { recursive: true }))
  const [, POLICIES = ''] = /POLICIES='(.*)'/.exec(guide.exported) ?? []
  const variables = {
    ...{ RATE_LIMITS: 'off', POLICIES, KEY_PREFIX: 'guide' },
    ...{ DECIDE_TOKEN: 'd'.repeat(64), REDIS_URL },
  }
  const serving = await Promise.all([startServing(variables), startServing(variables)])
  const api = await startUpstream((_request, response) => void response.end('hello'))
  onTestFinished(async () => {
    for (const part of [...serving, api]) await part.stop()
  })
  const port = await findFreePort()
  const changes: readonly (readonly [string, string])[] = [
    ['a-token-of-at-least-32-characters', variables.DECIDE_TOKEN],
    ['server 127.0.0.1:8788 ', `server ${serving[0].url.host} `],
    ['server 127.0.0.1:8789 ', `server ${serving[1].url.host} `],
    ['server 127.0.0.1:3000;', `server ${new URL(api.url).host};`],
    ['listen 8080;', `listen 127.0.0.1:${port};`],
  ]
  let text = await readFile(join(ROOT, 'ops/nginx.conf'), 'utf8')
  for (const [written, value] of changes) {
    expect(text).toContain(written)
    text = text.replaceAll(written, value)
  }
  // Where a package that is only unpacked may write.
  const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  const temporary = kinds.map((kind) => `${kind}_temp_path ${guide.folder}/${kind};`)
  await writeFile(
    join(guide.folder, 'nginx.conf'),
    text.replace('http {', `http {\naccess_log off;\n${temporary.join('\n')}`),
  )
  const args = ['-p', guide.folder, '-c', 'nginx.conf', '-e', 'stderr', '-g', `daemon off; pid ${guide.folder}/pid;`]
  const nginx = startProgram(await findProxy('nginx'), args, { stdio: ['ignore', 'ignore', 'inherit'] })
  onTestFinished(async () => void (await nginx.end('SIGTERM')))
  await untilListening(port)
  expect(await guide.tryIt(port)).toBe(guide.expected)
})
