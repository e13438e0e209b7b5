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
  const readName = (each: string) => each.replace(/(?<=.)@.*/, '')
  const newest = guide.packages.filter((each) => !versions.some((version) => readName(version) === readName(each)))
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

const NEST = ['@nestjs/common', '@nestjs/core', '@nestjs/platform-express', '@nestjs/websockets', 'typescript']

/** Follows the guide of NestJS up to its compiler. @param change changes files of the folder before */
async function compileNest(others: readonly string[], change: (folder: string) => Promise<void>): Promise<Guide> {
  const { dependencies } = JSON.parse(await readFile(join(ROOT, 'test/system/frameworks/package.json'), 'utf8'))
  const own = [...NEST, 'reflect-metadata', 'rxjs', ...others].map((name) => `${name}@${dependencies[name]}`)
  const guide = await follow('nestjs', [...own, ...(await readVersions('@redis/client', '@types/node'))])
  await change(guide.folder)
  const tsc = join(guide.folder, 'node_modules/typescript/bin/tsc')
  await promisify(execFile)(process.execPath, [tsc], { cwd: guide.folder }).catch(({ stdout }) => {
    throw new Error(stdout)
  })
  return guide
}

async function replaceIn(file: string, changes: readonly (readonly [string, string])[]): Promise<void> {
  let text = await readFile(file, 'utf8')
  for (const [written, value] of changes) {
    expect(text).toContain(written)
    text = text.replace(written, value)
  }
  await writeFile(file, text)
}

test.each(['Express', 'Fastify'])('NestJS on %s', async (platform) => {
  const guide = await compileNest(['@nestjs/platform-fastify'], async (folder) => {
    if (platform === 'Express') return
    await replaceIn(join(folder, 'main.ts'), [
      [
        "import 'reflect-metadata'",
        "import 'reflect-metadata'\nimport { FastifyAdapter } from '@nestjs/platform-fastify'",
      ],
      ['create(AppModule)', 'create(AppModule, new FastifyAdapter())'],
    ])
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

/** What the guide's classes of GraphQL and WebSockets import, and an app that has them, and a call of another kind. */
const NEST_API = `import { Query, Resolver } from '@nestjs/graphql'
import { SubscribeMessage, WebSocketGateway } from '@nestjs/websockets'
import { RateLimit } from './rate-limit.js'
`
const NEST_MAIN = `import 'reflect-metadata'
import { ApolloDriver } from '@nestjs/apollo'
import { GraphQLModule } from '@nestjs/graphql'
import { RateLimitGuard } from './rate-limit.js'
import { ChatGateway, GreetingResolver } from './api.js'`

test('NestJS over GraphQL and WebSockets, and no other call', async () => {
  const graphql = ['@apollo/server', '@as-integrations/express5', '@nestjs/apollo', '@nestjs/graphql', 'graphql']
  const others = [...graphql, '@nestjs/platform-socket.io', 'socket.io-client']
  const guide = await compileNest(others, async (folder) => {
    const page = await readFile(join(ROOT, 'docs/guides/nestjs.md'), 'utf8')
    const [, classes = ''] = /^## GraphQL and WebSockets$.*?```ts\n(.*?)```/ms.exec(page) ?? []
    await writeFile(join(folder, 'api.ts'), NEST_API + classes)
    const modules = 'imports: [RateLimitModule, GraphQLModule.forRoot({ driver: ApolloDriver, autoSchemaFile: true })]'
    await replaceIn(join(folder, 'main.ts'), [
      ["import 'reflect-metadata'", NEST_MAIN],
      ['imports: [RateLimitModule]', `${modules}, providers: [GreetingResolver, ChatGateway]`],
      [
        "  @Post('login')",
        `  kinds() {
    return Promise.allSettled(['rpc', 'necord'].map((type) => {
      const context = { getType: () => type, getArgs: () => [], getClass: () => AppController, getHandler: () => AppController.prototype.kinds }
      return new RateLimitGuard(new Reflector()).canActivate(context as never)
    })).then((results) => results.map((result) => result.status === 'rejected' && String(result.reason)))
  }

  @Get('kinds')
  getKinds() {
    return this.kinds()
  }

  @RateLimit({ name: 'login', limits: '5/1m', by: 'ip' })
  @Post('login')`,
      ],
      ["import { NestFactory } from '@nestjs/core'", "import { NestFactory, Reflector } from '@nestjs/core'"],
    ])
  })
  const port = await findFreePort()
  await start(guide.folder, port, ['dist/main.js'], { REDIS_URL })
  const url = new URL(`http://127.0.0.1:${port}`)
  const errors: unknown[] = []
  for (let call = 0; call < 6; call++) {
    const body = JSON.stringify({ query: '{ greet }' })
    const headers = { 'Content-Type': 'application/json' }
    const answer = (await (await fetch(`${url}graphql`, { method: 'POST', body, headers })).json()) as Answer
    errors.push(answer.errors?.[0]?.extensions.originalError ?? answer.data?.greet)
  }
  const refusal = { statusCode: 429, message: 'Too Many Requests', retryAfterMs: expect.any(Number) }
  expect(errors).toEqual([...Array(5).fill('hello'), refusal])

  const path = join(guide.folder, 'node_modules/socket.io-client/build/esm/index.js')
  const { io } = await import(path)
  const socket = io(url.href, { transports: ['websocket'] })
  onTestFinished(() => void socket.close())
  const events: unknown[] = []
  for (let call = 0; call < 6; call++) {
    events.push(
      await new Promise((resolve) => {
        socket.once('exception', resolve)
        socket.emit('say', {}, resolve)
      }),
    )
  }
  expect(events).toEqual([...Array(5).fill('said'), refusal])

  expect(json(await send(url, { path: '/kinds' }))).toEqual([
    'Error: RateLimit finds no request in a call by rpc',
    'Error: RateLimit finds no request in a call by necord',
  ])
})

interface Answer {
  readonly data?: { readonly greet?: string } | null
  readonly errors?: readonly { readonly extensions: { readonly originalError: object } }[]
}

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
